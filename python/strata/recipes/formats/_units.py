"""Units of systemd, as several formats write them: one starts what lies below, one mounts the file system."""

from __future__ import annotations

import re
import shlex

from strata.layers import survivable
from strata.model import Command, Kind
from strata.recipes.formats._parts import afterwards, commented, first_the_stack, heading, mount_of, restarts
from strata.recipes.plan import Recipe
from strata.recipes.written import File

_PLACE = "/etc/systemd/system"

# systemd waits 90 s for the device of a mount, counted from the beginning of the boot, and that device lies on top of
# what this brings up: so this waits much less for the disks, as long as Debian's mdadm does before it starts an array
# without one (mdadm-last-resort@.timer). The links are made by udev, which knows a disk before it has one.
_WAIT_S = 30
_WAIT = """\
waited=0
for device; do
  until [ -b "$device" ] || [ "$waited" -ge %d ]; do sleep 1; waited=$((waited + 1)); done
done"""


def units(recipe: Recipe) -> tuple[File, ...]:
    mount, again = mount_of(recipe), restarts(recipe)
    below = f"strata-{recipe.name}.service"
    names = ([below] if again else []) + ([unit_of(mount.path, "mount")] if mount is not None else [])
    named = " ".join(shlex.quote(unit) for unit in names)
    remarks = [*heading(recipe), first_the_stack(recipe)]
    remarks.append(
        f"Put the files in {_PLACE}, then: `systemctl daemon-reload && systemctl enable --now {named}`; what is not "
        "enabled does not come back at boot."
    )
    remarks += afterwards(f"`systemctl is-active {named}`", f"`systemctl disable --now {named}`, and remove the files.")
    remarks += _missing(recipe) if again else []
    head = commented(remarks)
    files = []
    if again:
        text = head + _service(
            recipe, again, before="local-fs.target" if mount is None else unit_of(mount.path, "mount")
        )
        files.append(File(below, text, f"{_PLACE}/{below}"))
    if mount is not None:
        lines = ["[Unit]", f"Description={recipe.name}: {recipe.stack}".replace("%", "%%")]
        lines += [f"Requires={below}", f"After={below}"] if again else []
        lines += ["", "[Mount]", f"What=/dev/disk/by-uuid/{mount.uuid}", f"Where={mount.path}", f"Type={mount.type}"]
        lines += [f"Options={mount.options}"] if mount.options else []
        lines += ["", "[Install]", "WantedBy=local-fs.target", ""]
        name = unit_of(mount.path, "mount")
        files.append(File(name, head + "\n".join(lines), f"{_PLACE}/{name}"))
    return tuple(files)


def _service(recipe: Recipe, again: list[tuple[str, Command]], before: str) -> str:
    paths, after = [each.path for each in recipe.given], "systemd-udev-settle.service dm-event.socket"
    devices, waits = " ".join(unit_of(path, "device") for path in paths), _has_copies(recipe)
    lines = [
        "[Unit]",
        f"Description=what lies below {recipe.name}",
        "DefaultDependencies=no",
        *(
            [f"After=systemd-udev-trigger.service {after}"]
            if waits
            else [f"Requires={devices}", f"After={devices} {after}"]
        ),
        f"Before={before} local-fs.target",
        "RequiresMountsFor=/var/lib/strata",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
    ]
    if waits:
        wait = Command(("sh", "-c", _WAIT % _WAIT_S, "sh", *paths))
        lines += [f"# wait for the disks, and go on without one that is missing after {_WAIT_S} s", _start(wait)]
    for why, command in again:
        lines += [f"# {why}", _start(command)]
    return "\n".join([*lines, "", "[Install]", "WantedBy=local-fs.target", ""])


def _start(command: Command) -> str:
    return f"ExecStart=/usr/bin/env {' '.join(map(_word, command.argv))}"


def tied(recipe: Recipe, *services: str) -> tuple[File, ...]:
    """Drop-ins: these services do not start where the storage is missing, and so write nothing to the empty mount
    point. Source: systemd.unit(5).
    """
    below = [f"strata-{recipe.name}.service"] if restarts(recipe) else []
    lines = [*heading(recipe), "Without the storage this service is not started. Then: systemctl daemon-reload."]
    lines += afterwards("`systemctl cat` of the service shows it.", "remove this file.")
    unit = ["[Unit]"]
    unit += [f"{word}={name}" for name in below for word in ("Requires", "After")]
    if recipe.top.kind is Kind.DIRECTORY:
        # the first orders and requires the mount unit, the second holds where nobody has made one
        unit += [f"RequiresMountsFor={recipe.mount}", f"AssertPathIsMountPoint={recipe.mount}"]
    else:
        unit.append(f"AssertPathExists={recipe.top.path}")
    text = commented(lines) + "\n".join(unit) + "\n"
    return tuple(
        File(f"{service}-strata-{recipe.name}.conf", text, f"{_PLACE}/{service}.service.d/strata-{recipe.name}.conf")
        for service in services
    )


def _has_copies(recipe: Recipe) -> bool:
    """Whether it may come back without one of its disks, though perhaps not without every one: a mirror below a cache
    on one device.
    """
    known = {layer.node.call.name: layer.driver for layer in recipe.layers}
    return any(survivable(layer.node, known) for layer in recipe.layers)


def _missing(recipe: Recipe) -> list[str]:
    """What happens at a boot that finds not all of its disks."""
    if not _has_copies(recipe):
        return ["Where a disk is missing, the machine boots without this file system."]
    waits = f"Where a disk is missing, boot waits for it for {_WAIT_S} s, and continues with the rest."
    if recipe.top.filesystem == "btrfs" and len(recipe.layers[-1].below) > 1:
        return [
            waits,
            "btrfs then refuses to be mounted: mount it by hand with -o degraded, and put another disk in its place.",
        ]
    return [waits]


def _word(word: str) -> str:
    """Quoted for ExecStart. Source: systemd.service(5), "Command lines"; systemd.unit(5), specifiers."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + escaped.replace("$", "$$").replace("%", "%%") + '"'


def unit_of(path: str, suffix: str) -> str:
    """The name of the unit of a path. Source: systemd.unit(5), "String escaping for inclusion in unit names"."""
    inner = re.sub(
        r"[^A-Za-z0-9:_./]", lambda sign: "".join(f"\\x{byte:02x}" for byte in sign[0].encode()), path.strip("/")
    )
    if inner.startswith("."):
        inner = "\\x2e" + inner[1:]
    return f"{inner.replace('/', '-')}.{suffix}"
