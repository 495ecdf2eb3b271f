"""Profiles of a campaign file: what an overlay does, where its mistakes are shown, and what makes two runs differ."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.campaign import Campaign, DiskSpec, as_file, differences, load, profiles
from strata.campaign.document import Document, read
from strata.campaign.source import Problems
from strata.errors import BadInput, Problem

from .catalogue import LAYERS, WORKLOADS

FILE = """\
disks: {hdd: {size: 8G, write_cache: volatile}}
factors:
  fs: [ext4, xfs]
stacks:
  - hdd | $fs
exclude:
  - {fs: xfs}
rule: {rounds: 5, within: 2%}
profiles:
  quick:
    disks: {hdd: {size: 1G}}
    exclude:
    workloads: ["null"]
    rule: {rounds: 1}
  one:
    factors: {fs: [xfs]}
    exclude: ~
"""


def campaign(text: str, profile: str | None = None) -> Campaign:
    return load(dedent(text), where="a.yaml", layers=LAYERS, workloads=WORKLOADS, read_file=str, profile=profile)


def problems(text: str, profile: str | None = None) -> list[Problem]:
    with pytest.raises(BadInput) as caught:
        campaign(text, profile)
    return list(caught.value.problems)


def test_a_profile_says_only_what_is_different() -> None:
    quick = campaign(FILE, "quick")
    assert [stack.text for stack in quick.stacks] == ["hdd | ext4", "hdd | xfs"]
    assert quick.disks == {"hdd": DiskSpec(1 << 30, write_cache="volatile")}
    assert [call.text for call in quick.workloads] == ["null"]
    assert (quick.rule.rounds, quick.rule.within) == (1, 0.02)
    assert [stack.text for stack in campaign(FILE, "one").stacks] == ["hdd | xfs"]
    assert campaign(FILE, "one").rule.rounds == 5


def test_full_is_the_file_as_it_stands_unless_the_file_says_more() -> None:
    whole = campaign(FILE)
    assert [stack.text for stack in whole.stacks] == ["hdd | ext4"]
    assert campaign(FILE, "full") == whole and whole.profile is None
    assert campaign("stacks: [disk | ext4]", "full").profile is None
    longer = campaign(FILE + "  full: {rule: {rounds: 9}}\n", "full")
    assert (longer.rule.rounds, longer.profile) == (9, "full")
    assert campaign(FILE + "  full: {rule: {rounds: 9}}\n").rule.rounds == 5


def test_a_profile_that_is_not_there_is_refused_with_those_that_are() -> None:
    (one,) = problems(FILE, "quik")
    assert one.message == "a.yaml has no profile 'quik' (did you mean 'quick'?); take quick, one and full."
    (one,) = problems("stacks: [disk | ext4]", "quick")
    assert one.message == "a.yaml has no profile 'quick'; take full, which is the file as it stands."


def test_a_profile_is_what_the_run_is() -> None:
    same = FILE.replace("    exclude:\n", "").replace('    workloads: ["null"]\n', "").replace("size: 1G", "size: 8G")
    quick, whole = campaign(same, "quick"), campaign(same)
    assert quick.fingerprint != whole.fingerprint
    assert differences(whole.describe(), quick.describe()) == ["~ profile: not stated, now quick"]
    again = load(as_file(quick, 3), where="b", layers=LAYERS, workloads=WORKLOADS, read_file=str, profile="quick")
    assert again.describe() == quick.describe()


@pytest.mark.parametrize(
    ("changed", "to", "line", "column", "message"),
    [
        ("rule: {rounds: 1}", "rule: {round: 1}", 14, 12, "with profile quick: there is no key 'round' here (did you"),
        ("rule: {rounds: 1}", "rule: {rounds: no}", 14, 20, "with profile quick: rounds cannot be 'no'; write a whole"),
        ('["null"]', "[nul]", 13, 17, "with profile quick: there is no workload 'nul'"),
        ("{fs: [xfs]}", "{fs: [xfx]}", 16, 20, "with profile one: there is no layer 'xfx' (did you mean 'xfs'?)"),
        ("    exclude: ~\n", "", 6, 1, "with profile one: these rules leave no stack to run"),
        ("  one:\n", "  one: quick\n  two:\n", 15, 8, "profile one cannot be this; write keys of the file in it"),
        ("  one:\n", "  a/b:\n", 15, 3, "'a/b' is no name of a profile; use letters, digits and . _ -"),
        ("    exclude: ~\n", "    profiles: {}\n", 17, 5, "a profile holds no profiles; write them side by side"),
    ],
)
def test_a_mistake_is_shown_where_it_stands_whichever_profile_is_asked_for(
    changed: str, to: str, line: int, column: int, message: str
) -> None:
    assert changed in FILE
    for profile in (None, "quick"):
        found = problems(FILE.replace(changed, to), profile)
        assert [(p.line, p.column) for p in found] == [(line, column)], [p.message for p in found]
        assert found[0].message.startswith(message)


def test_what_is_wrong_with_the_file_is_said_once() -> None:
    (one,) = problems(FILE.replace("within: 2%", "within: 200%"))
    assert one.line == 8
    assert not one.message.startswith("with profile")
    (one,) = problems("stacks: [disk | ext4]\nprofiles: quick\n")
    assert one.message == "profiles cannot be this; write it as profiles: {quick: {rule: ...}}"


# ---------------------------------------------------------------- against the standard that it says it follows

WORDS = st.text("abc", min_size=1, max_size=2)
PLAIN = st.recursive(
    st.none() | WORDS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=3)
)
FILES = st.dictionaries(WORDS, PLAIN, max_size=4)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2, to the letter."""
    if not isinstance(patch, dict):
        return patch
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merge_patch(found.get(name), value)
    return found


def written(file: dict[str, Any], overlay: dict[str, Any]) -> Document:
    text = json.dumps({**file, "profiles": {"quick": overlay}}).replace("null", "~")
    document = read(text, "a.yaml", Problems())
    assert document is not None
    return document


def places(data: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    inside: dict[Any, Any] = data if isinstance(data, dict) else dict(enumerate(data)) if isinstance(data, list) else {}
    return {path}.union(*(places(value, (*path, key)) for key, value in inside.items()))


def without_empty(data: Any) -> Any:
    """A key with nothing after it counts as not written."""
    if isinstance(data, dict):
        return {key: without_empty(value) for key, value in data.items() if value is not None}
    return data


@settings(deadline=None)
@given(FILES, FILES)
def test_an_overlay_is_a_merge_patch_and_every_value_keeps_its_place(
    file: dict[str, Any], overlay: dict[str, Any]
) -> None:
    document = written(file, overlay)
    under = profiles.overlaid(document, "quick")
    assert without_empty(under.data) == without_empty(merge_patch(file, overlay))
    assert set(under.values) == places(under.data)
    assert set(under.keys) == {path for path in places(under.data) if path and isinstance(path[-1], str)}
    for path, place in under.values.items():
        found = under.data
        for part in path:
            found = found[part]
        assert not isinstance(found, str) or place.text == found
    assert profiles.overlaid(document, None).data == file
