"""What the drivers that make block devices with the kernel's own means share: modules, waiting for udev, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strata.layers._steps import output, sh
from strata.model import Call, Command, Completed, Facts

SETTLE = """\
settle() {
  if [ -S /run/udev/control ]; then udevadm settle --timeout=60; fi
}
"""
"""A function of the shell: wait until udev has seen what was done, on a machine that has udev."""

NAME = 'name() { basename -- "$(readlink -f -- "$1")"; }\n'
"""A function of the shell: what the kernel calls a device, "vdb", however it was linked to."""

# $1 device node, or what udev makes a link of.
_AWAIT = (
    SETTLE
    + """\
for pause in 0 0.05 0.1 0.2 0.4 0.8 1 2 4; do
  sleep "$pause"; settle
  if [ -b "$1" ]; then exit 0; fi
done
echo "there is no $1 though the kernel was told to make it: look at dmesg for the reason" >&2
exit 1"""
)


def await_node(path: str) -> Command:
    """Wait until a device is there under the name that was chosen for it."""
    return sh(_AWAIT, path, timeout_s=120.0)


def module_reasons(layer: str, facts: Facts, modules: Sequence[str]) -> list[str]:
    return [
        f"The kernel {facts.kernel_text} has no {module}, which {layer} needs; "
        f"boot a kernel that has {module} built in or as a module."
        for module in modules
        if module not in facts.modules
    ]


def io_uring_reasons(spec: Call, facts: Facts) -> list[str]:
    """Of a layer with `aio`."""
    lacking = facts.io_uring_lacking if spec["aio"] == "io_uring" else ""
    return [f"{lacking}, or choose another aio."] if lacking else []


def fields(seen: Sequence[Completed], index: int) -> dict[str, list[str]]:
    """The lines NAME=VALUE of an answer, a name's values in their order; {} when there is no answer."""
    found: dict[str, list[str]] = {}
    answer = output(seen, index)
    for line in answer.stdout.splitlines() if answer else ():
        name, is_pair, value = line.partition("=")
        if is_pair:
            found.setdefault(name, []).append(value.strip())
    return found


def first(found: Mapping[str, Sequence[str]], name: str) -> str | None:
    values = found.get(name)
    return values[0] if values else None
