"""What the reader of a recipe has to know of it, whatever its format. Pure."""

from __future__ import annotations

from strata.judge.risks import sentence
from strata.planning.layout import PlacedLayer
from strata.recipes.plan import Recipe


def remarks(recipe: Recipe) -> list[str]:
    """Sentences, the gravest first."""
    return [*_risks(recipe), *recipe.notes, *(line for layer in recipe.layers for line in _of(layer))]


def _risks(recipe: Recipe) -> list[str]:
    words = {"power": "by a power cut", "device": "with one device", "": ""}
    return [
        f"CAN LOSE ACKNOWLEDGED DATA {words[risk.loses]}: {sentence(risk)}" if risk.loses else f"Risk: {sentence(risk)}"
        for risk in recipe.risks
    ]


def _of(layer: PlacedLayer) -> list[str]:
    call = layer.node.call
    match call.name:
        case "lvmthin":
            return [_pool(layer, "thin")]
        case "vdo":
            return [_pool(layer, "vdo")]
        case "lvmcache" if call["chunk"] is None:
            return [_CACHE_CHUNK]
        case "qcow2" if call["prealloc"] in ("off", "metadata"):
            return [_IMAGE.format(directory=layer.below[0].path)]
    return []


# Source: lvm.conf(5), allocation/cache_pool_max_chunks: a million.
_CACHE_CHUNK = (
    "Chunk of the cache: LVM chooses it by the size of the cache, 64K up to a million chunks (61G) and more for a "
    "larger one; where the cache measured was of another size, compare `lvs -o+chunk_size`, or write "
    "lvmcache(chunk=...)."
)

_IMAGE = (
    "Running full: the image grows to its whole size, and a guest that finds no more room stops. Nothing warns by "
    "itself: watch `df {directory}` against the sum of the sizes of the images."
)


def _pool(layer: PlacedLayer, kind: str) -> str:
    """lvmthin(7) and lvmvdo(7), "Automatic extend" and "data usage"; dmeventd warns from 80 % on, in steps of 5."""
    pool = f"{layer.place.name}/pool"
    return (
        f"Running full: LVM's monitor dmeventd warns in the system's log from 80 % of the pool {pool} on (now: `lvs "
        f"-o+data_percent,seg_monitor {pool}`). The pool takes all of its volume group: give it another device in time "
        f"(vgextend, then lvextend); only then can LVM extend it by itself ({kind}_pool_autoextend_threshold in "
        "lvm.conf). Writes to a full pool fail, and what is on it can be damaged."
    )
