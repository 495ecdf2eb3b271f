"""Whether a limit that a stack asks for held while a trial ran: what passed it, as the device counted it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from strata.model import Guest, Kind, ParamType
from strata.planning.layout import Layout, PlacedLayer
from strata.run.trials.trial import Trial
from strata.units import human_size

GROUP = "limit"  # of the arguments of a layer that are limits

# Argument -> the counter of the device, and what it counts.
_COUNTED = {
    "read_iops": ("reads", "reads"),
    "write_iops": ("writes", "writes"),
    "read_bps": ("read_bytes", "of reads"),
    "write_bps": ("write_bytes", "of writes"),
}

# QEMU lets through at once what a tenth of a second may bring, the kernel what its slice of time may; and a trial on a
# busy machine is sampled a moment late.
_OVER = 1.10
_AT_ONCE_S = 1.0


def judged(layout: Layout, trial: Trial, tenant: int | None, shared: Mapping[str, float]) -> Trial:
    """The trial with a note and the flag "limit" for every limit that did not hold.

    `tenant`: whose trial it is, None: everybody's; `shared`: figures of devices that all tenants use. What is not known
    of a device is not judged.
    """
    if trial.figures is None or trial.wall_s is None:
        return trial
    broken = [
        said
        for placed in layout.layers
        if tenant is None or placed.tenant in (None, tenant)
        for said in _broken(layout, placed, trial.figures, trial.wall_s, shared)
    ]
    if not broken:
        return trial
    return replace(trial, flags=(*trial.flags, "limit"), notes=(*trial.notes, *dict.fromkeys(broken)))


def _broken(
    layout: Layout, placed: PlacedLayer, own: Mapping[str, float], wall_s: float, shared: Mapping[str, float]
) -> list[str]:
    found = []
    for param in placed.driver.info.params:
        limit = placed.node.call[param.name] if param.group == GROUP else None
        if limit is None:
            continue
        counter, what = _COUNTED[param.name]
        layer = _device_layer(layout, placed)
        name = f"{layer}.{counter}"
        # A device that all tenants use sees what all of their limits let through.
        alike = sum(each.node is placed.node for each in layout.layers)
        devices = _devices(layout, placed, layer)
        count, times = (own[name], devices) if name in own else (shared.get(name), devices * alike)
        allowed = float(limit) * times
        if count is None or count <= allowed * (wall_s * _OVER + _AT_ONCE_S):
            continue
        of_bytes = param.type is ParamType.SIZE
        rate, most = (human_size(round(n)) if of_bytes else f"{n:.0f}" for n in (count / wall_s, allowed))
        found.append(
            f"limit not held: {rate} {what} a second reached the devices of {layer}, where {placed.node.call.text} "
            f"allows {most}"
        )
    return found


def _devices(layout: Layout, placed: PlacedLayer, layer: str) -> int:
    """How many times a limit holds: an engine has it held for each device that its containers lie on."""
    if not placed.driver.info.engine.asks_by:
        return 1
    tenants_own = layout.block_devices(placed.guest, placed.tenant)
    for found in (tenants_own, layout.block_devices(placed.guest)):
        if count := sum(name == layer for name, _ in found):
            return count
    return 1


def _device_layer(layout: Layout, placed: PlacedLayer) -> str:
    """The layer whose devices the limit is for: the nearest block device at or below it, on the same machine."""
    here: Guest | None = placed.provides.guest
    known = {path: layer for layer, path in layout.block_devices(here)}
    node, below = placed.node, [placed, *reversed(layout.layers[: layout.layers.index(placed)])]
    for each in below:
        makes = each.driver.info.provides is Kind.BLOCK
        if makes and each.provides.guest == here and each.node in node.walk():
            return known.get(each.provides.path, each.node.call.name)
    return "disk"  # what the user's own directory lies on
