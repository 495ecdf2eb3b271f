"""A qcow2 disk image, QEMU's own format: it gives out clusters when they are first written."""

from __future__ import annotations

from collections.abc import Sequence

from strata.layers._driver import Driver
from strata.layers._image import (
    DAY_S,
    NOCOW,
    TOOLS,
    ask_image,
    image_bytes,
    image_differences,
    image_figures,
    image_metrics,
    image_path,
    image_reasons,
    make_image,
    plan_image_figures,
    provide_image,
    size_param,
)
from strata.layers._steps import sh, standard_reasons
from strata.model import Call, Command, Completed, Facts, Kind, LayerInfo, Param, ParamType, Place, Provides, Step
from strata.units import format_size, human_size

SMALLEST_CLUSTER, LARGEST_CLUSTER, USUAL_CLUSTER = 512, 2 << 20, 64 << 10
SMALLEST_WITH_EXTENDED_L2 = 16 << 10

# QEMU's own: the first table has 32 MiB at most (block/qcow2.h, QCOW_MAX_L1_SIZE).
_MOST_L1_ENTRIES = (32 << 20) // 8

INFO = LayerInfo(
    name="qcow2",
    about="A qcow2 disk image in the directory below.",
    params=(
        size_param("half, or a quarter with a base image,"),
        Param(
            "prealloc",
            ParamType.CHOICE,
            "what is made beforehand: nothing, the tables, room for the data too, or that written with zeros",
            default="off",
            choices=("off", "metadata", "falloc", "full"),
        ),
        Param(
            "cluster",
            ParamType.SIZE,
            "the unit in which it gives out room, a power of two",
            default=USUAL_CLUSTER,
            minimum=SMALLEST_CLUSTER,
            maximum=LARGEST_CLUSTER,
        ),
        Param("lazy_refcounts", ParamType.FLAG, "count references late; after a crash it is repaired", default=False),
        Param("extended_l2", ParamType.FLAG, "give out parts of clusters, 32 of each", default=False),
        Param(
            "backing",
            ParamType.CHOICE,
            "a base image under it, full of data that half compress, as a clone of a template has: raw, qcow2, or "
            "qcow2 with its clusters compressed",
            default="off",
            choices=("off", "raw", "qcow2", "compressed"),
        ),
        Param(
            "compression",
            ParamType.CHOICE,
            "how clusters that are written compressed are; a compressed base image too",
            default="zlib",
            choices=("zlib", "zstd"),
        ),
        NOCOW,
    ),
    accepts=frozenset({Kind.DIRECTORY}),
    provides=Kind.IMAGE,
    tools={**TOOLS, "fio": "fio"},
    metrics=image_metrics("qcow2"),
)

# $1 directory, $2 name of the base image, $3 its format or "compressed", $4 bytes, $5 options of qemu-img. Written in
# order and once, so that it lies in as few pieces as a template that was copied there. fio's seed stays the same, and
# so does the content. fio would split a path at some letters; a name of ours has none of them.
_MAKE_BASE = """\
cd -- "$1" || exit 1
file=$2; [ "$3" = raw ] || file=$2.raw
fio --name=base --filename="$file" --rw=write --bs=1M --size="$4" --ioengine=psync --fallocate=none --end_fsync=1 \
  --refill_buffers=1 --buffer_compress_percentage=50 --randrepeat=1 --eta=never --output=/dev/null || exit 1
case $3 in
  raw) exit ;;
  compressed) qemu-img convert -q -c -f raw -O qcow2 -o "$5" -- "$file" "$2" ;;
  *) qemu-img convert -q -f raw -O qcow2 -o "$5" -- "$file" "$2" ;;
esac && rm -- "$file\""""

_REMOVE_BASE = 'rm -f -- "$1" "$1.raw"'


def _most_bytes(cluster: int, *, extended: bool) -> int:
    """An entry of the first table leads to a cluster of entries, each of 8 bytes, or of 16 where they are extended."""
    return _MOST_L1_ENTRIES * (cluster // (16 if extended else 8)) * cluster


class Qcow2Driver(Driver):
    info = INFO

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = standard_reasons(facts, self.info.tools) + image_reasons("qcow2", spec)
        cluster = int(spec["cluster"] or USUAL_CLUSTER)
        if cluster & (cluster - 1):
            reasons.append(f"qcow2 has clusters of a power of two, and {format_size(cluster)} is none; round it.")
        if spec["extended_l2"] and cluster < SMALLEST_WITH_EXTENDED_L2:
            reasons.append(
                f"qcow2(extended_l2) needs clusters of 16K or more, not {format_size(cluster)}; make cluster= larger."
            )
        most = _most_bytes(cluster, extended=bool(spec["extended_l2"]))
        if int(spec["size"] or 0) > most:
            reasons.append(
                f"qcow2 with clusters of {format_size(cluster)} holds {human_size(most)} at most; make cluster= larger "
                "or size= smaller."
            )
        if spec["backing"] != "off" and spec["prealloc"] != "off" and not spec["extended_l2"]:
            reasons.append(
                "qcow2 is only preallocated over a base image when it can give out parts of clusters; "
                "add extended_l2, or leave out backing= or prealloc=."
            )
        return reasons

    def provides(self, spec: Call, below: Sequence[Provides], place: Place) -> Provides:
        return provide_image("qcow2", spec, below[0], _file(below, place), _images(spec))

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        size, backing = _size(spec, below), str(spec["backing"])
        format_options = {"cluster_size": str(spec["cluster"]), "compression_type": str(spec["compression"])}
        if spec["lazy_refcounts"]:
            format_options["lazy_refcounts"] = "on"
        if spec["extended_l2"]:
            format_options["extended_l2"] = "on"
        options = dict(format_options)
        if spec["prealloc"] != "off":
            options["preallocation"] = str(spec["prealloc"])
        if backing == "off":
            return make_image("qcow2", spec, place, _file(below, place), size, options)
        base = _base(below, place)
        directory, _, name = base.rpartition("/")
        # The base is named by its file alone: QEMU looks for it where the image is, and commas would end the name.
        options |= {"backing_file": name, "backing_fmt": "raw" if backing == "raw" else "qcow2"}
        words = ",".join(f"{name}={value}" for name, value in format_options.items())
        make_base = Step(
            sh(_MAKE_BASE, directory, name, backing, str(size), words, timeout_s=DAY_S),
            sh(_REMOVE_BASE, base),
            "make the base image",
        )
        return [make_base, *make_image("qcow2", spec, place, _file(below, place), size, options)]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return ask_image("qcow2", spec, place, _file(below, place))

    def differences(self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]) -> list[str]:
        file = _file(below, place)
        wrong, found = image_differences("qcow2", spec, file, _size(spec, below), seen)
        if not found:
            return wrong
        if found.get("corrupt"):
            wrong.append(f"qcow2: the image {file} is marked as corrupt.")
        asked = {
            "cluster-size": spec["cluster"],
            "lazy-refcounts": spec["lazy_refcounts"],
            "extended-l2": spec["extended_l2"],
            "compression-type": spec["compression"],
            "backing": None if spec["backing"] == "off" else _base(below, place),
        }
        return wrong + [
            f"qcow2: {name} of {file} is {found.get(name)} instead of {value}."
            for name, value in asked.items()
            if found.get(name) != value
        ]

    def plan_figures(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return plan_image_figures(place, _file(below, place))

    def figures(
        self, spec: Call, below: Sequence[Provides], place: Place, seen: Sequence[Completed]
    ) -> dict[str, float]:
        return image_figures("qcow2", seen)


def _file(below: Sequence[Provides], place: Place) -> str:
    return image_path(below[0], place, ".qcow2")


def _base(below: Sequence[Provides], place: Place) -> str:
    return image_path(below[0], place, "-base")


def _images(spec: Call) -> int:
    return 1 if spec["backing"] == "off" else 2


def _size(spec: Call, below: Sequence[Provides]) -> int:
    return image_bytes("qcow2", spec, below[0], _images(spec))


DRIVER = Qcow2Driver()
