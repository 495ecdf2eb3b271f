"""A disk model as a person writes it: YAML, every problem with its key and its line. Pure.

    name: my-disk
    about: The disks of our old file server.
    queue_depth: 32
    write_cache: volatile            volatile, protected or none
    service:                         one of fixed, hdd, ssd: what serves it on the virtual clock
      hdd: {rpm: 7200, ...}          the parameters of crates/disks/src/parameters.rs, under the same names
    limits: {read_iops: 180, ...}    what it may do at most on the real clock
    sources: [data sheet ...]
    assumed: {flush_us: TLC flash}   what was not measured, and the class whose value it is

At least one of `service` and `limits` must be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from strata.campaign import document
from strata.campaign.document import Document, Path
from strata.campaign.source import Problems, did_you_mean
from strata.model import WriteCache
from strata.text import listed


@dataclass(frozen=True, slots=True)
class Key:
    """What may stand under a key: a number with its least and most, a flag, a word of several, or text."""

    type: Literal["whole", "real", "flag", "text"] | tuple[str, ...]
    least: float = 0
    most: float = float("inf")
    optional: bool = False


def _whole(least: float, most: float, *, optional: bool = False) -> Key:
    return Key("whole", least, most, optional)


def _real(least: float, most: float, *, optional: bool = False) -> Key:
    return Key("real", least, most, optional)


_RATE = _whole(1 << 10, 1 << 40)
_BLOCK = Key(("512", "4096"), optional=True)

# crates/disks/src/parameters.rs says what each means. What only holds for several together is checked there.
SERVICES: Mapping[str, Mapping[str, Key]] = {
    "fixed": {
        "servers": _whole(1, 1024),
        "read_us": _real(0, 1e8),
        "write_us": _real(0, 1e8),
        "flush_us": _real(0, 1e8, optional=True),
        "bytes_per_s": _whole(1 << 10, 1 << 40, optional=True),
        "rotational": Key("flag", optional=True),
        "cache_bytes": _whole(0, 1 << 34, optional=True),
    },
    "hdd": {
        "capacity_bytes": _whole(1 << 28, 1 << 46),
        "stroke": Key(("full", "outer"), optional=True),
        "rpm": _whole(1000, 30_000),
        "heads": _whole(1, 64),
        "zones": _whole(1, 64),
        "outer_bytes_per_s": _whole(1 << 20, 1 << 32),
        "inner_bytes_per_s": _whole(1 << 20, 1 << 32),
        "track_switch_ms": _real(0, 60),
        "seek_short_ms": _real(0, 100),
        "seek_short_sqrt_ms": _real(0, 100),
        "seek_knee": _real(0, 1),
        "seek_long_ms": _real(0, 100),
        "seek_long_linear_ms": _real(0, 100),
        "write_settle_ms": _real(0, 10, optional=True),
        "command_us": _real(0, 1e5),
        "interface_bytes_per_s": _RATE,
        "longest_wait_ms": _real(0, 1e5),
        "cache_bytes": _whole(0, 1 << 34, optional=True),
        "cached_writes": _whole(1, 1 << 24, optional=True),
        "destage_idle_ms": _real(0, 1e4, optional=True),
        "destage_share": _real(0, 1, optional=True),
        "destage_window": _whole(1, 1024, optional=True),
        "destage_age_ms": _real(0, 1e6, optional=True),
        "read_ahead_bytes": _whole(0, 1 << 30, optional=True),
        "read_segments": _whole(1, 1024, optional=True),
    },
    "ssd": {
        "channels": _whole(1, 64),
        "dies_per_channel": _whole(1, 64),
        "mapping_bytes": Key(("512", "4096", "8192", "16384"), optional=True),
        "page_bytes": _whole(512, 4 << 20),
        "program_bytes": _whole(4096, 4 << 20),
        "block_bytes": _whole(1 << 16, 1 << 30),
        "read_us": _real(0.1, 1e6),
        "program_us": _real(0.1, 1e6),
        "erase_ms": _real(0, 1e4),
        "channel_bytes_per_s": _whole(1 << 20, 1 << 40),
        "over_provisioning": _real(0.02, 10),
        "interface_bytes_per_s": _whole(1 << 20, 1 << 40),
        "full_duplex": Key("flag"),
        "command_us": _real(0, 1e5),
        "read_latency_us": _real(0, 1e6),
        "write_latency_us": _real(0, 1e6),
        "buffer_bytes": _whole(0, 1 << 34, optional=True),
        "flush_us": _real(0, 1e6, optional=True),
        "reads_before_program": _whole(1, 1 << 20, optional=True),
        "filled_share": _real(0, 1, optional=True),
        "overwritten": _real(0, 20, optional=True),
    },
}
LIMITS: Mapping[str, Key] = {
    "read_iops": _real(1, 1e9),
    "write_iops": _real(1, 1e9),
    "read_bytes_per_s": _RATE,
    "write_bytes_per_s": _RATE,
}
_DEVICE: Mapping[str, Key] = {
    "logical_block_bytes": _BLOCK,
    "physical_block_bytes": _BLOCK,
    "queue_depth": _whole(1, 128),
    "largest_request_bytes": _whole(4096, 4 << 20, optional=True),
}
_ERRORS: Mapping[str, Key] = {
    "on": Key(("any", "read", "write", "flush"), optional=True),
    "start_bytes": _whole(0, 1 << 46, optional=True),
    "length_bytes": _whole(1, 1 << 46, optional=True),
    "every": _whole(1, 1 << 62, optional=True),
    "from_s": _real(0, 1e9, optional=True),
}
_STALLS: Mapping[str, Key] = {
    "length_ms": _real(0, 1e7),
    "at_s": _real(0, 1e9, optional=True),
    "every": _whole(1, 1 << 62, optional=True),
    "share": _real(0, 1, optional=True),
}
_FAULTS: Mapping[str, Key] = {
    "dropped_flush_every": _whole(1, 1 << 62, optional=True),
    "power_cut_s": _real(0, 1e9, optional=True),
    "power_back_s": _real(0, 1e9, optional=True),
}
_SAID = ("name", "about", "write_cache", "service", "limits", "faults", "sources", "assumed")


@dataclass(frozen=True, slots=True)
class Written:
    """What a file says, checked."""

    name: str
    about: str
    write_cache: WriteCache
    service: tuple[str, Mapping[str, Any]] | None  # its kind and its parameters
    device: Mapping[str, Any]  # of the device that the service stands behind
    faults: Mapping[str, Any]
    limits: Mapping[str, float] | None
    sources: tuple[str, ...]
    assumed: Mapping[str, str]


def load(text: str, where: str) -> Written:
    """Raises BadInput with all problems, each with its place."""
    problems = Problems()
    found = document.read(text, where, problems, "a disk model", "name, write_cache, and service or limits")
    if found is not None:
        reader = _Reader(found, problems)
        written = reader.model()
        problems.raise_if_any()
        return written
    problems.raise_if_any()
    raise AssertionError("a file that cannot be read has a problem")


@dataclass(slots=True)
class _Reader:
    file: Document
    problems: Problems

    def model(self) -> Written:
        data = self.file.data
        for key in data:
            if key not in (*_SAID, *_DEVICE):
                hint = did_you_mean(key, (*_SAID, *_DEVICE))
                self.wrong((key,), f"a disk model has no '{key}'{hint}; its keys are {listed((*_SAID, *_DEVICE))}")
        if "service" not in data and "limits" not in data:
            self.wrong((), "this model says neither `service` (virtual clock) nor `limits` (real clock); add one")
        service = self.service() if "service" in data else None
        device = {key: value for key, value in data.items() if key in _DEVICE}
        return Written(
            name=str(self.value((), "name", Key("text"))),
            about=str(self.value((), "about", Key("text", optional=True)) or ""),
            write_cache=self.value((), "write_cache", Key(get_args(WriteCache))),
            service=service,
            device=self.values((), _DEVICE, device) if service is not None else {},
            faults=self.faults() if "faults" in data else {},
            limits=self.mapping(("limits",), LIMITS) if "limits" in data else None,
            sources=self.texts("sources"),
            assumed=self.assumed(),
        )

    def service(self) -> tuple[str, Mapping[str, Any]] | None:
        said = self.file.data["service"]
        if not isinstance(said, dict) or len(said) != 1 or next(iter(said)) not in SERVICES:
            self.wrong(("service",), f"`service` holds one key, which is {' or '.join(SERVICES)}, and its parameters")
            return None
        kind = next(iter(said))
        return kind, self.mapping(("service", kind), SERVICES[kind])

    def faults(self) -> Mapping[str, Any]:
        said = self.file.data["faults"]
        if not isinstance(said, dict):
            self.wrong(("faults",), "`faults` holds errors, stalls, dropped_flush_every or power_cut_s")
            return {}
        lists = {"errors": _ERRORS, "stalls": _STALLS}
        found: dict[str, Any] = {}
        for key, keys in lists.items():
            entries = said.get(key, [])
            if not isinstance(entries, list):
                self.wrong(("faults", key), f"`{key}` is a list, each entry with {listed(keys)}")
                continue
            found[key] = [self.mapping(("faults", key, number), keys) for number in range(len(entries))]
        plain = {key: value for key, value in said.items() if key not in lists}
        return found | self.values(("faults",), _FAULTS, plain)

    def texts(self, key: str) -> tuple[str, ...]:
        said = self.file.data.get(key, [])
        entries = [said] if isinstance(said, str) else said
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            self.wrong((key,), f"`{key}` is a list of texts")
            return ()
        return tuple(entries)

    def assumed(self) -> Mapping[str, str]:
        said = self.file.data.get("assumed", {})
        if not isinstance(said, dict) or not all(isinstance(value, str) for value in said.values()):
            self.wrong(("assumed",), "`assumed` holds names of parameters, each with the class whose value it has")
            return {}
        return said

    def mapping(self, path: Path, keys: Mapping[str, Key]) -> dict[str, Any]:
        said = self.file.data
        for part in path:
            said = said[part]
        if not isinstance(said, dict):
            self.wrong(path, f"here stand {listed(keys)}, each with its value")
            return {}
        return self.values(path, keys, said)

    def values(self, path: Path, keys: Mapping[str, Key], said: Mapping[str, Any]) -> dict[str, Any]:
        for key in said:
            if key not in keys:
                where = f"`{path[-1]}`" if path else "a disk model"
                self.wrong((*path, key), f"{where} has no '{key}'{did_you_mean(key, keys)}; it has {listed(keys)}")
        values = {name: self.value(path, name, key) for name, key in keys.items() if name in said or not key.optional}
        return {name: value for name, value in values.items() if value is not None}

    def value(self, path: Path, name: str, key: Key) -> Any:
        """None when it is missing or wrong; that is noted."""
        said = self.file.data
        for part in path:
            said = said[part]
        if said.get(name) is None:
            if not key.optional or name in said:
                self.wrong((*path, name) if name in said else path, f"'{name}' is missing; give {_what(key)}")
            return None
        text = said[name]
        value = _parsed(text, key) if isinstance(text, str) else None
        if value is None:
            shown = f"'{text}'" if isinstance(text, str) else "this"
            self.wrong((*path, name), f"{name}: {shown} is not right; give {_what(key)}")
        return value

    def wrong(self, path: Path, message: str) -> None:
        self.problems.add(self.file.at(path), message)


def _parsed(text: str, key: Key) -> Any:
    """The value, None when it is none."""
    if isinstance(key.type, tuple):
        if text not in key.type:
            return None
        return int(text) if text.isdecimal() else text
    if key.type == "text":
        return text or None
    if key.type == "flag":
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(text.lower())
    try:
        number = int(text) if key.type == "whole" else float(text)
    except ValueError:
        return None
    return number if key.least <= number <= key.most else None


def _what(key: Key) -> str:
    if isinstance(key.type, tuple):
        return " or ".join(key.type)
    if key.type == "flag":
        return "true or false"
    if key.type == "text":
        return "a text"
    number = "a whole number" if key.type == "whole" else "a number"
    return f"{number} from {key.least:.10g} to {key.most:.10g}"
