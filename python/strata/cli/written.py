"""What the user wrote on the command line, as a campaign."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, get_args

from strata import campaign as campaigns
from strata import layers, workloads
from strata.campaign import Campaign, DiskSpec
from strata.campaign import testbed as testbeds
from strata.campaign.source import did_you_mean
from strata.errors import BadInput, Problem
from strata.model import Call, WriteCache
from strata.run import session
from strata.text import listed

T = TypeVar("T")

# Far more than any campaign, job file or script needs, and read in seconds.
_MOST_BYTES = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
}
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Where:
    """What the command line says of the testbed; each of them holds over what a campaign file says."""

    on: str | None = None
    clock: str | None = None
    debian: int | None = None
    kernel: str | None = None
    models: tuple[str, ...] = ()  # ROLE=MODEL
    seeds: int | None = None
    write_caches: tuple[str, ...] = ()  # ROLE=volatile|protected|none


def campaign(
    what: Sequence[str],
    loads: Sequence[str],
    sizes: Sequence[str],
    where: Where | None = None,
    profile: str | None = None,
) -> Campaign:
    """One campaign file under a profile, or stack expressions; `-w` replaces a file's workloads. Raises BadInput."""
    if is_file(what):
        written = _load(Path(what[0]), profile)
        if loads:
            named = [
                call
                for text in loads
                for call in campaigns.parse_workloads(text, workloads.catalogue(), where="-w", read_file=_read)
            ]
            written = replace(written, workloads=tuple(_lying(call, Path.cwd()) for call in named))
    elif profile is not None:
        raise BadInput("--profile chooses a profile of a campaign file; give one, or leave it out.")
    else:
        written = campaigns.from_expressions(
            what, loads, layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=_read
        )
        written = replace(written, workloads=tuple(_lying(call, Path.cwd()) for call in written.workloads))
    return _with_disks(_placed(written, where or Where()), sizes, where or Where())


def _placed(written: Campaign, where: Where) -> Campaign:
    try:
        testbed = testbeds.overridden(
            written.testbed, on=where.on, clock=where.clock, debian=where.debian, kernel=where.kernel
        )
    except ValueError as error:
        raise BadInput(f"{error}.") from error
    if where.seeds is not None and testbed.clock != "virtual":
        raise BadInput("--seeds are the replicates of the virtual clock; add --clock virtual, or say --rounds.")
    rule = written.rule if where.seeds is None else replace(written.rule, rounds=where.seeds)
    return campaigns.placed(replace(written, rule=rule), testbed)


def _with_disks(written: Campaign, sizes: Sequence[str], where: Where) -> Campaign:
    disks = dict(written.disks)
    problems: list[Problem] = []

    def change(option: str, said: Mapping[str, T], changed: Callable[[DiskSpec, T], DiskSpec]) -> None:
        for role, value in said.items():
            if role in disks:
                disks[role] = changed(disks[role], value)
            else:
                hint = did_you_mean(role, disks)
                problems.append(
                    Problem(
                        f"{option}: no stack uses the disk role {role}{hint}; the roles in use are {listed(disks)}."
                    )
                )

    change("--size", session.as_role_sizes(sizes), lambda disk, size: replace(disk, size_bytes=size))
    named = _as_role_models(where.models, problems)
    if where.models and written.testbed.kind != "lab":
        problems.append(Problem("--disk gives a disk of the lab its model; add --on lab, or leave it out."))
    change("--disk", named, lambda disk, model: replace(disk, model=model[0], model_text=model[1]))
    caches = _as_role_caches(where.write_caches, problems)
    change("--write-cache", caches, lambda disk, cache: replace(disk, write_cache=cache))
    if problems:
        raise BadInput(problems)
    return replace(written, disks=disks)


def _as_role_caches(texts: Sequence[str], problems: list[Problem]) -> dict[str, WriteCache]:
    """From `ROLE=volatile|protected|none`."""
    known = {name: name for name in get_args(WriteCache)}
    found: dict[str, WriteCache] = {}
    for text in texts:
        role, _, cache = text.partition("=")
        if not role or cache not in known:
            problems.append(Problem(f"--write-cache takes ROLE={'|'.join(known)}, as in hdd=none; '{text}' is not."))
        elif role in found:
            problems.append(Problem(f"--write-cache is said twice of the role {role}; keep one of them."))
        else:
            found[role] = known[cache]
    return found


def _as_role_models(texts: Sequence[str], problems: list[Problem]) -> dict[str, tuple[str, str | None]]:
    """From `ROLE=MODEL` or `ROLE=FILE.yaml`: role -> the model as written, and the text of its file."""
    found: dict[str, tuple[str, str | None]] = {}
    for text in texts:
        role, _, model = text.partition("=")
        if not role or not model:
            problems.append(Problem(f"--disk takes ROLE=MODEL or ROLE=FILE.yaml, as in hdd=hdd-7200; '{text}' is not."))
        elif role in found:
            problems.append(Problem(f"--disk gives the role {role} two models; keep one of them."))
        else:
            try:
                found[role] = (model, campaigns.model_text(model, _read))
            except ValueError as error:
                problems.append(Problem(f"--disk {text}: {error}."))
    return found


def is_file(what: Sequence[str]) -> bool:
    """Whether it is one campaign file, and not stack expressions."""
    if len(what) != 1:
        return False
    (text,) = what
    if text.endswith((".yaml", ".yml")):
        return True
    path = None if "|" in text else existing(text)
    return path is not None and path.is_file()


def existing(text: str) -> Path | None:
    """The file or directory of that name, if there is one: an expression may be longer than any name can be."""
    path = Path(text)
    try:
        path.stat()
    except (OSError, ValueError):
        return None
    return path


def _load(path: Path, profile: str | None) -> Campaign:
    directory, opened = path.parent, set[str]()

    def read_file(name: str) -> str:
        text = _text_below(directory, name)
        opened.add(name)
        return text

    read = campaigns.load(
        _read_or_refuse(path),
        where=str(path),
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        read_file=read_file,
        profile=profile,
    )
    _check_enclosed(read, path, opened)
    return replace(
        read, workloads=tuple(_lying(call, directory) if call.path in opened else call for call in read.workloads)
    )


def _check_enclosed(read: Campaign, path: Path, opened: Collection[str]) -> None:
    """Raises BadInput when a text under `files:` is not that of the file of the same name beside the campaign.

    Whoever looks at the campaign would read the file, and the text would be carried out.
    """
    named = {call.path: str(call["content"]) for call in read.workloads if call.path}
    named |= {disk.model: disk.model_text for disk in read.disks.values() if disk.model and disk.model_text is not None}
    problems = []
    for name, text in named.items():
        beside = path.parent / name
        if name in opened or Path(name).is_absolute() or not os.path.lexists(beside):
            continue
        try:
            same = _text_below(path.parent, name) == text
        except (OSError, ValueError):
            same = False
        if not same:
            problems.append(
                Problem(
                    f"{path} holds a text of {name} under files:, and {beside} has another content; "
                    "rename one of them, or delete the one that is not meant."
                )
            )
    if problems:
        raise BadInput(problems)


def _lying(call: Call, directory: Path) -> Call:
    """With where its file lies: what a file needs beside itself is taken from there."""
    if not call.path:
        return call
    return replace(call, values={**call.values, "file": str((directory / call.path).absolute())})


def _text_below(directory: Path, name: str) -> str:
    """The text of a file that a campaign in `directory` names, which may be a stranger's. Raises OSError, ValueError.

    What root can read would be kept in the run: the file lies below the directory, with all links followed.
    """
    root = Path(os.path.realpath(directory))
    real = Path(os.path.realpath(directory / name, strict=True))
    if not real.is_relative_to(root):
        raise ValueError(
            "it does not lie below the directory of the campaign; copy it there, or name it on the command line"
        )
    *folders, last = real.relative_to(root).parts or (".",)
    with ExitStack() as closing:

        def folder(opened: int) -> int:
            closing.callback(os.close, opened)
            return opened

        # Step by step: what has become a link in between is not followed.
        at = folder(os.open(root, os.O_RDONLY | _FOLDER))
        for part in folders:
            at = folder(os.open(part, os.O_RDONLY | _FOLDER | os.O_NOFOLLOW, dir_fd=at))
        return _regular_text(Path(last), within=at)


def _read(name: str) -> str:
    return _regular_text(Path(name))


def _read_or_refuse(path: Path) -> str:
    return text_of(path, "give a campaign file, or a stack expression in quotes")


def text_of(path: Path, instead: str) -> str:
    """The text of a file that the user named. Raises BadInput when it cannot be read, with what to give `instead`."""
    try:
        return _regular_text(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(f"cannot read {path}: {reason}; {instead}.") from error


def _regular_text(path: Path, within: int | None = None) -> str:
    """The text of a regular file of at most 1 MiB, its line ends as "\n". Raises OSError, and ValueError with why.

    `within`: an open directory in which `path` is a name, and not a link.

    Opening a pipe waits for its writer, and opening a device may do something (a watchdog starts), so the kind is read
    first; it is read again from the open file, because the name may have been changed in between.
    """
    flags = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if within is None else os.O_NOFOLLOW)
    _check_kind(os.stat(path, dir_fd=within, follow_symlinks=within is None))
    with os.fdopen(os.open(path, os.O_RDONLY | flags, dir_fd=within), "rb") as file:
        _check_kind(os.fstat(file.fileno()))
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("it is larger than 1 MiB, the most that a campaign and the files it names may have")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "of an unknown kind")
        raise ValueError(f"it is {kind}, not a regular file")
