"""What the reader of a recipe has to know of it, whatever its format. Pure."""

from __future__ import annotations

from strata.judge.risks import sentence
from strata.layers import survivable
from strata.recipes.plan import Layer, Recipe


def remarks(recipe: Recipe) -> list[str]:
    """Sentences, the gravest first."""
    return [
        *risks(recipe),
        *_left_out(recipe),
        *recipe.notes,
        *(line for layer in recipe.layers for line in _of(layer)),
        *(line for layer in recipe.layers for line in _failing(layer, recipe)),
        *_kernel_defaults(recipe),
    ]


def _left_out(recipe: Recipe) -> list[str]:
    if not recipe.left_out:
        return []
    return [f"Measured with {', '.join(recipe.left_out)}, which the recipe does not set up."]


def _kernel_defaults(recipe: Recipe) -> list[str]:
    """What no layer of the stack sets, so that it can differ from the machine that measured."""
    if any(layer.node.call.name == "scheduler" for layer in recipe.layers):
        return []
    return [_KERNEL_DEFAULTS]


def risks(recipe: Recipe) -> list[str]:
    """The documented risks of the stack, the gravest first."""
    words = {"power": "by a power cut", "device": "with one device", "": ""}
    return [
        f"CAN LOSE ACKNOWLEDGED DATA {words[risk.loses]}: {sentence(risk)}" if risk.loses else f"Risk: {sentence(risk)}"
        for risk in recipe.risks
    ]


def _of(layer: Layer) -> list[str]:
    call = layer.node.call
    match call.name:
        case "lvmthin":
            return [_pool(layer, "thin")]
        case "vdo":
            return [_pool(layer, "vdo")]
        case "lvmcache" if call["chunk"] is None:
            return [_CACHE_CHUNK]
        case "zfs":
            return [text for name, text in _ZFS.items() if call[name] is None]
        case "qcow2" if call["prealloc"] in ("off", "metadata"):
            return [_IMAGE.format(directory=layer.below[0].path)]
    return []


# Source: lvm.conf(5), allocation/cache_pool_max_chunks: a million.
_CACHE_CHUNK = (
    "Chunk of the cache: LVM chooses it by the size of the cache, 64K up to a million chunks (61G) and more for a "
    "larger one; where the cache measured was of another size, compare `lvs -o+chunk_size`, or write "
    "lvmcache(chunk=...)."
)

_KERNEL_DEFAULTS = (
    "I/O scheduler and read-ahead: the recipe sets neither, as the measurement did not; the kernel chooses them by the "
    "device. Compare /sys/block/*/queue/scheduler and read_ahead_kb of both machines, or write scheduler(...)."
)

# Source: zfs(4), zfs_arc_max; zpoolprops(7), ashift.
_ZFS = {
    "ashift": "Sector size: ZFS asks the devices, as in the measurement: ashift is 9 for loop files and disks that "
    "report 512 bytes, 12 for disks that report 4 KiB. Compare `zpool get ashift`, or write zfs(ashift=...); it "
    "cannot be changed later.",
    "arc_max": "Memory: ZFS's cache may take half of this machine's memory or more, and the measurement may have had "
    "another machine's; write zfs(arc_max=...) to bound it.",
}

_IMAGE = (
    "Running full: the image grows to its whole size, and a guest that finds no more room stops. Nothing warns by "
    "itself: watch `df {directory}` against the sum of the sizes of the images."
)


def _pool(layer: Layer, kind: str) -> str:
    """lvmthin(7) and lvmvdo(7), "Automatic extend" and "data usage"; dmeventd warns from 80 % on, in steps of 5."""
    pool = f"{layer.place.name}/pool"
    return (
        f"Running full: LVM's monitor dmeventd warns in the system's log from 80 % of the pool {pool} on (now: `lvs "
        f"-o+data_percent,seg_monitor {pool}`). The pool takes all of its volume group: give it another device in time "
        f"(vgextend, then lvextend); only then can LVM extend it by itself ({kind}_pool_autoextend_threshold in "
        "lvm.conf). Writes to a full pool fail, and what is on it can be damaged."
    )


def _failing(layer: Layer, recipe: Recipe) -> list[str]:
    """What warns of a failed disk of a redundant layer."""
    name = layer.node.call.name
    if name not in _FAILING or not survivable(layer.node, {each.node.call.name: each.driver for each in recipe.layers}):
        return []
    return [_FAILING[name].format(name=layer.place.name, directory=layer.provides.path)]


# Sources: mdadm(8), --monitor; lvmraid(7); zed(8); btrfs-device(8).
_FAILING = {
    "md": "A failed disk: mdadm's monitor mails it, where mdadm.conf has MAILADDR (`mdadm --monitor --scan --oneshot "
    "--test` sends a test mail).",
    "lvm": "A failed disk: dmeventd writes it to the system's log; `lvs -o+lv_health_status {name}` shows it.",
    "zfs": "A failed disk: zed mails it, where zfs-zed is installed and zed.rc has ZED_EMAIL_ADDR; `zpool status -x` "
    "shows it.",
    "btrfs": "A failed disk: nothing mails it; `btrfs device stats {directory}` counts its errors.",
}
