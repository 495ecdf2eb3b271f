"""What the layers that make a disk image in a directory share: room, steps, reading back, figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from strata.errors import BadInput
from strata.layers._device import fields, first
from strata.layers._steps import output, remove_link, run, said, sh
from strata.model import Call, Command, Completed, Kind, Metric, Param, ParamType, Place, Provides, Step
from strata.units import human_size

MIB = 1 << 20
SECTOR_BYTES = 512

# What files can have of the room: XFS has its log, and ext4's tables of inodes and its journal take 2 to 5 % by
# themselves; of btrfs, which has its metadata twice and gives out room in large pieces, a file had 3567 MiB of 4096.
_LEFT_BY_FILE_SYSTEM = {"btrfs": 0.85}
_LEFT_BY_OTHERS = 0.95

DAY_S = 86400.0
"""For writing out an image of many terabytes."""

_COPIES_ON_WRITE = "btrfs"  # the only one for which QEMU has it (qemu-img(1), "nocow")

TOOLS = {
    "qemu-img": "qemu-utils",
    "filefrag": "e2fsprogs",
    "lsattr": "e2fsprogs",
    **dict.fromkeys(("stat", "sync"), "coreutils"),
}

NOCOW = Param("nocow", ParamType.FLAG, "write the image in place where the file system below copies on write (btrfs)",
              default=False)  # fmt: skip


def size_param(share: str) -> Param:
    return Param("size", ParamType.SIZE, f"the size of the disk that it holds; without it, {share} of the room below",
                 minimum=MIB)  # fmt: skip


def image_metrics(layer: str) -> tuple[Metric, ...]:
    return (
        Metric(f"{layer}.logical_bytes", "bytes", "lower", "the length of the image file"),
        Metric(f"{layer}.physical_bytes", "bytes", "lower", "what the image takes of the file system below"),
        Metric(f"{layer}.physical_bytes_made", "bytes", "neither", "what it took when it was made"),
        Metric(f"{layer}.extents", "count", "lower", "pieces that the image file lies in"),
        Metric(f"{layer}.extents_made", "count", "neither", "pieces that it lay in when it was made"),
    )


# $1 image. What is still in memory has no place on the disk yet, and would not be counted.
_LOOK = """\
sync -- "$1" && stat --printf='length=%s\\nblocks=%b\\n' -- "$1" || exit 1
filefrag -- "$1" 2>/dev/null | sed -n 's/.*: \\([0-9]*\\) extents\\{0,1\\} found$/extents=\\1/p'"""

_NOTE = f'record=$2; {{ {_LOOK}\n}} > "$record"'


def image_path(below: Provides, place: Place, suffix: str) -> str:
    return f"{below.path}/{place.name}{suffix}"


def image_bytes(layer: str, spec: Call, below: Provides, images: int = 1) -> int:
    """The size of the disk. `images` of this size are made. Raises BadInput when they have no room."""
    room, asked = below.size_bytes, spec["size"]
    if asked is None:
        if room is None:
            raise BadInput(
                f"the room below {layer} is not known; write {layer}(size=...), or give the disks' size (--size)."
            )
        size = room // 2 // images // MIB * MIB
        if size < MIB:
            raise BadInput(f"the {human_size(room)} below {layer} are too small for an image; make the disk larger.")
        return size
    size = int(asked)
    if room is not None and size * images > room:
        base = " and a base image of the same size" if images > 1 else ""
        raise BadInput(
            f"{layer}: an image of {human_size(size)}{base} can grow beyond the {human_size(room)} of room below; "
            "make size= smaller or the disk larger."
        )
    left = _LEFT_BY_FILE_SYSTEM.get(below.filesystem or "", _LEFT_BY_OTHERS)
    if room is not None and size * images > room * left:
        raise BadInput(
            f"{layer}: an image of {human_size(size)} can grow beyond what files can have of the {human_size(room)} of "
            "room below, of which the file system keeps some for itself; make size= smaller or the disk larger."
        )
    return size


def provide_image(layer: str, spec: Call, below: Provides, file: str, images: int = 1) -> Provides:
    """As the layers above rely on it: `name` is the format as QEMU calls it. Raises BadInput."""
    # On another file system qemu-img leaves the attribute out silently.
    if spec["nocow"] and below.filesystem not in (None, _COPIES_ON_WRITE):
        raise BadInput(
            f"{layer}(nocow) is of images on {_COPIES_ON_WRITE}, and {below.filesystem} has no such files; leave nocow "
            f"out, or put the image on {_COPIES_ON_WRITE}."
        )
    return Provides(Kind.IMAGE, file, image_bytes(layer, spec, below, images), name=layer)


def image_reasons(layer: str, spec: Call) -> list[str]:
    if int(spec["size"] or 0) % SECTOR_BYTES:
        return [f"{layer}(size={spec['size']}) is not a multiple of {SECTOR_BYTES} bytes; round it."]
    return []


def make_image(layer: str, spec: Call, place: Place, file: str, size: int, options: Mapping[str, str]) -> list[Step]:
    """`options` are those of `qemu-img create -o`; none of their values holds a comma."""
    chosen = dict(options)
    if spec["nocow"]:
        chosen["nocow"] = "on"
    words = ("-o", ",".join(f"{name}={value}" for name, value in chosen.items())) if chosen else ()
    record = _record(place)
    return [
        Step(
            run("qemu-img", "create", "-q", "-f", layer, *words, "--", file, str(size), timeout_s=DAY_S),
            remove_link(file),
            f"make the {layer} image",
        ),
        Step(sh(_NOTE, file, record), remove_link(record), "note how it lies on the file system below"),
    ]


def ask_image(layer: str, spec: Call, place: Place, file: str) -> list[Command]:
    """What is there, though a program may have the image open and hold some of its state in memory."""
    return [
        run("stat", "--format=%F", "--", file),
        run("qemu-img", "info", "--force-share", "--output=json", "-f", layer, "--", file),
        run("cat", "--", _record(place)),
        *([run("lsattr", "-d", "--", file)] if spec["nocow"] else []),
    ]


def image_differences(
    layer: str, spec: Call, file: str, size: int, seen: Sequence[Completed]
) -> tuple[list[str], Mapping[str, object]]:
    """What is not as requested of any image, and what QEMU says of the format; {} when it says nothing."""
    kind = output(seen, 0)
    if kind is None:
        return [f"{layer}: the image {file} is not there: {said(seen, 0)}."], {}
    if kind.stdout.strip() != "regular file":
        return [f"{layer}: {file} is a {kind.stdout.strip()} instead of an image."], {}
    told = output(seen, 1)
    try:
        info = json.loads(told.stdout if told else "")
        format_name, held, more = str(info["format"]), int(info["virtual-size"]), info.get("format-specific") or {}
        specific = {"backing": info.get("full-backing-filename"), "cluster-size": info.get("cluster-size")}
        specific |= more.get("data") or {}
    except (ValueError, LookupError, TypeError, AttributeError):
        why = "qemu-img does not say what it is" if told else said(seen, 1)
        return [f"{layer}: the image {file} cannot be read: {why}."], {}
    wrong = []
    if format_name != layer:
        wrong.append(f"{layer}: the image {file} has the format {format_name}.")
    if held != size:
        wrong.append(f"{layer}: the image {file} holds a disk of {held} bytes instead of {size}.")
    if first(fields(seen, 2), "length") is None:
        wrong.append(f"{layer}: how {file} lay when it was made is not known: {said(seen, 2)}.")
    if spec["nocow"]:
        attributes = output(seen, 3)
        if attributes is None or "C" not in attributes.stdout.split(" ")[0]:
            what = said(seen, 3) if attributes is None else "the file system below has no such files"
            wrong.append(f"{layer}: {file} is not written in place: {what}.")
    return wrong, specific


def plan_image_figures(place: Place, file: str) -> list[Command]:
    return [sh(_LOOK, file), run("cat", "--", _record(place))]


def image_figures(layer: str, seen: Sequence[Completed]) -> dict[str, float]:
    found = {}
    for index, when in ((0, ""), (1, "_made")):
        state = fields(seen, index)
        for name, metric, unit in (
            ("length", "logical_bytes", 1),
            ("blocks", "physical_bytes", SECTOR_BYTES),
            ("extents", "extents", 1),
        ):
            value = first(state, name)
            if value is not None and value.isascii() and value.isdecimal() and not (when and name == "length"):
                found[f"{layer}.{metric}{when}"] = float(int(value) * unit)
    return found


def _record(place: Place) -> str:
    return f"{place.dir}/made"
