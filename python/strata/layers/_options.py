"""Mount options as data: how one is written, since when and until when kernels have it, how a kernel shows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from strata.model import Call, Facts, Param, ParamType, Value

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Option:
    """A mount option. It is on when its param is neither None nor False."""

    param: Param
    since: Version | None = None  # the first kernel that has it
    gone: Version | None = None  # the first kernel that does not have it any more
    hidden: bool = False  # the kernel never shows it, mostly because it is the default
    unshown: Collection[Value] = ()  # values that the kernel does not show, because they are the default
    against: tuple[str, ...] = ()  # what must not be shown when this is on
    texts: Callable[[Value], tuple[str, ...]] | None = None  # what is shown, if not what is typed

    def shown(self, value: Value) -> tuple[str, ...]:
        """The texts of which the kernel shows one when this is on; () when it shows none."""
        if self.hidden:
            return ()
        return self.texts(value) if self.texts else (typed(self.param, value),)


def typed(param: Param, value: Value) -> str:
    """An option as it is written behind `mount -o`."""
    return param.name if param.type is ParamType.FLAG else f"{param.name}={value}"


def flag(
    name: str,
    about: str,
    *,
    since: Version | None = None,
    gone: Version | None = None,
    hidden: bool = False,
    against: tuple[str, ...] = (),
    names: tuple[str, ...] = (),  # what kernels call it when they show it
) -> Option:
    param = Param(name, ParamType.FLAG, about, default=False, group="mount")
    texts = (lambda value: names) if names else None
    return Option(param, since, gone, hidden, against=against, texts=texts)


def choice(name: str, about: str, *choices: str, since: Version | None = None) -> Option:
    return Option(Param(name, ParamType.CHOICE, about, choices=choices, group="mount"), since)


def number(
    name: str,
    about: str,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    since: Version | None = None,
    hidden: bool = False,
    unshown: Collection[Value] = (),
) -> Option:
    param = Param(name, ParamType.INT, about, minimum=minimum, maximum=maximum, group="mount")
    return Option(param, since, hidden=hidden, unshown=unshown)


def size(
    name: str, about: str, *, minimum: int, maximum: int, kib: bool = False, unshown: Collection[Value] = ()
) -> Option:
    """A size in bytes; `kib`: the kernel shows it as "64k"."""
    param = Param(name, ParamType.SIZE, about, minimum=minimum, maximum=maximum, group="mount")
    texts = (lambda value: (f"{name}={int(value) // 1024}k",)) if kib else None
    return Option(param, unshown=unshown, texts=texts)


COMMON = (
    flag("noatime", "do not record when a file was last read"),
    flag("nodiratime", "do not record when a directory was last read"),
    flag("relatime", "record reads only when older than the last change or a day (the kernel's default)"),
    flag("strictatime", "record every read", hidden=True, against=("noatime", "relatime")),
    flag("lazytime", "keep changed times in memory and write them with other changes"),
    flag("sync", "write everything at once"),
    flag("dirsync", "write directory changes at once"),
)
"""What the kernel offers on every file system."""

ATIME = ("noatime", "relatime", "strictatime")
"""Of these, one at most."""


def chosen(options: Sequence[Option], spec: Call) -> list[tuple[Option, Value]]:
    """The options that are on, in the driver's order."""
    found = []
    for option in options:
        value = spec[option.param.name]
        if value is not None and value is not False:
            found.append((option, value))
    return found


def written(options: Sequence[Option], spec: Call) -> list[str]:
    """What goes behind `mount -o`."""
    return [typed(option.param, value) for option, value in chosen(options, spec)]


def option_reasons(
    options: Sequence[Option], exclusive: Sequence[Sequence[str]], spec: Call, facts: Facts, filesystem: str
) -> list[str]:
    """Options that this kernel does not have (any more), and options that exclude each other."""
    reasons = []
    names = [option.param.name for option, _ in chosen(options, spec)]
    for option, _ in chosen(options, spec):
        name, kernel = option.param.name, facts.kernel[:2]
        if option.gone is not None and kernel >= option.gone:
            reasons.append(
                f"Linux {_dotted(option.gone)} removed the {filesystem} mount option {name} and this is "
                f"{facts.kernel_text}; leave {name} out or boot an older kernel."
            )
        if option.since is not None and kernel < option.since:
            reasons.append(
                f"The {filesystem} mount option {name} came with Linux {_dotted(option.since)} and this is "
                f"{facts.kernel_text}; leave {name} out or boot a newer kernel."
            )
    for group in exclusive:
        both = [name for name in group if name in names]
        if len(both) > 1:
            reasons.append(f"The {filesystem} options {' and '.join(both)} exclude each other; keep one of them.")
    return reasons


def option_differences(options: Sequence[Option], spec: Call, shown: Sequence[str]) -> list[str]:
    """Requested options that the mounted file system does not show, as sentences."""
    wrong = []
    for option, value in chosen(options, spec):
        texts = option.shown(value)
        asked = typed(option.param, value)
        other = any(text.startswith(f"{option.param.name}=") for text in shown)
        default = value in option.unshown and not other
        if texts and not default and not any(text in shown for text in texts):
            wrong.append(f"The mount option {asked} is not in force; the kernel shows {','.join(shown)}.")
        contrary = [text for text in option.against if text in shown]
        if contrary:
            wrong.append(f"The mount option {asked} was asked for but the kernel shows {','.join(contrary)}.")
    return wrong


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
