"""Profiles of a campaign file: named overlays that make it shorter, smaller or wider.

    profiles:
      quick:
        rule: {rounds: 1}
        disks: {hdd: {size: 1G}}
        workloads: [fio/randrw-75-25(runtime=3s, size=64M)]

An overlay is put on the file as JSON merge patch puts one (RFC 7396): a mapping is merged key by key, at every depth;
anything else takes the place of what stood there; a key with nothing after it removes what the file says. Every
value keeps its place, so that what is wrong in a profile is shown there.
"""

from __future__ import annotations

import re

from strata.campaign.document import Document, Path, Plain
from strata.campaign.source import Problems, Source, did_you_mean
from strata.errors import BadInput, Problem
from strata.text import listed

KEY = "profiles"
WHOLE = "full"  # the file as it stands, unless the file has a profile of that name

MAX_PROFILES = 50

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def names(document: Document, problems: Problems) -> list[str]:
    """The profiles of a file; what is no profile goes to `problems`."""
    found = document.data.get(KEY)
    if found is None:
        return []
    if not isinstance(found, dict):
        problems.add(document.value_at((KEY,)), "profiles cannot be this; write it as profiles: {quick: {rule: ...}}")
        return []
    if len(found) > MAX_PROFILES:
        message = f"there are {len(found)} profiles, each a campaign of its own; write at most {MAX_PROFILES}"
        problems.add(document.at((KEY,)), message)
        return []
    usable = []
    for name, overlay in found.items():
        if not _NAME.fullmatch(name):
            message = f"'{name}' is no name of a profile; use letters, digits and . _ -"
            problems.add(document.at((KEY, name)), message)
        elif overlay is not None and not isinstance(overlay, dict):
            message = f"profile {name} cannot be this; write keys of the file in it, as {{rule: {{rounds: 1}}}}"
            problems.add(document.value_at((KEY, name)), message)
        elif overlay is not None and KEY in overlay:
            problems.add(document.at((KEY, name, KEY)), "a profile holds no profiles; write them side by side")
        else:
            usable.append(name)
    return usable


def known(document: Document) -> list[str]:
    """What may be asked for: those that the file has, and the file as it stands."""
    found = document.data.get(KEY)
    return list(dict.fromkeys([*(found if isinstance(found, dict) else ()), WHOLE]))


def chosen(document: Document, wanted: str | None, where: str) -> str | None:
    """The profile whose overlay is wanted; None for the file as it stands. Raises BadInput with those there are."""
    there = known(document)
    if wanted is None or (wanted == WHOLE and WHOLE not in (document.data.get(KEY) or {})):
        return None
    if wanted not in there:
        hint = did_you_mean(wanted, there)
        means = "" if document.data.get(KEY) else ", which is the file as it stands"
        message = f"{where} has no profile '{wanted}'{hint}; take {listed(there)}{means}."
        raise BadInput([Problem(message)])
    return wanted


def overlaid(document: Document, profile: str | None) -> Document:
    """The file as it is under `profile`, one of `names`; without its profiles."""
    values = {path: place for path, place in document.values.items() if path[:1] != (KEY,)}
    keys = {path: place for path, place in document.keys.items() if path[:1] != (KEY,)}
    data = {key: value for key, value in document.data.items() if key != KEY}
    if profile is not None:
        root = (KEY, profile)
        data = _merged(data, document.data[KEY][profile] or {}, (), root, _Places(document, values, keys))
    return Document(data, values, keys)


class _Places:
    """Where the values of the file under a profile stand: those that the profile says in the profile."""

    def __init__(self, document: Document, values: dict[Path, Source], keys: dict[Path, Source]) -> None:
        self.document, self.values, self.keys = document, values, keys

    def drop(self, path: Path) -> None:
        for places in (self.values, self.keys):
            for each in [each for each in places if each[: len(path)] == path]:
                del places[each]

    def take(self, path: Path, source: Path) -> None:
        for places, written in ((self.values, self.document.values), (self.keys, self.document.keys)):
            for each, place in written.items():
                if each[: len(source)] == source:
                    places[(*path, *each[len(source) :])] = place


def _merged(below: Plain, above: dict[str, Plain], path: Path, source: Path, places: _Places) -> dict[str, Plain]:
    found = dict(below) if isinstance(below, dict) else {}
    for key, value in above.items():
        to, come_from = (*path, key), (*source, key)
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = _merged(found[key], value, to, come_from, places)
            continue
        places.drop(to)
        if value is None:
            found.pop(key, None)
            continue
        found[key] = value
        places.take(to, come_from)
    return found
