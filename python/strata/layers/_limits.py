"""The limits that a layer can hold: as arguments, as requested, and as QEMU writes them."""

from __future__ import annotations

import json

from strata.model import Call, Param, ParamType

# Argument, its type, what it counts, and what QEMU's throttle groups call it.
_LIMITS = (
    ("read_iops", ParamType.INT, "reads", "iops-read"),
    ("write_iops", ParamType.INT, "writes", "iops-write"),
    ("read_bps", ParamType.SIZE, "bytes read", "bps-read"),
    ("write_bps", ParamType.SIZE, "bytes written", "bps-write"),
)

# QEMU lets through at once what a tenth of a second may bring (util/throttle.c): at least one request. And as many
# bytes as the patience of what lays out data sets counts on; through 64 KiB/s mkfs.ext4 alone took 392 s on 256 MiB.
_LEAST = {ParamType.INT: 10, ParamType.SIZE: 1 << 20}

# QEMU's THROTTLE_VALUE_MAX (include/qemu/throttle.h); beyond it nothing is limited.
_MOST = 10**15


def params(holder: str = "") -> tuple[Param, ...]:
    """The arguments of a layer; `holder`: what holds the limits, where the layer's own words do not say it."""
    by = f", held by {holder}" if holder else ""
    return tuple(
        Param(name, kind, f"at most so many {what} a second{by}", minimum=_LEAST[kind], maximum=_MOST, group="limit")
        for name, kind, what, _ in _LIMITS
    )


def asked(spec: Call) -> dict[str, int]:
    """Argument -> requests or bytes a second."""
    return {name: int(value) for name, *_ in _LIMITS if (value := spec[name]) is not None}


def words(spec: Call) -> list[str]:
    """As clients of engines take them (_throttle): "limit:write-bps=1048576"."""
    return [f"limit:{name.replace('_', '-')}={value}" for name, value in asked(spec).items()]


def asks() -> dict[str, str]:
    """Of a layer that has its limits held by the engine below: `EngineSupport.asks_by`."""
    return {name: "limit" for name, *_ in _LIMITS}


def throttle_group(spec: Call) -> str | None:
    """QEMU's object "limit" that holds them; None: none are asked for."""
    limits = asked(spec)
    if not limits:
        return None
    theirs = {qemu: limits[ours] for ours, _, _, qemu in _LIMITS if ours in limits}
    return json.dumps({"qom-type": "throttle-group", "id": "limit", "limits": theirs})
