"""Campaign files from strangers: each is refused with a sentence, in bounded time, and nothing is executed."""

from __future__ import annotations

import re

import pytest

from strata.campaign import document, load, parse_stacks, stacks
from strata.campaign.calls import MAX_COMBINATIONS
from strata.campaign.profiles import MAX_PROFILES
from strata.campaign.source import Problems
from strata.errors import BadInput

from .catalogue import LAYERS, WORKLOADS

STACKS = "stacks: [disk | ext4]\n"


def refused(text: str) -> str:
    """What is said of the first problem of a campaign file."""

    def no_file(name: str) -> str:
        raise AssertionError(f"{name} was read")

    with pytest.raises(BadInput) as caught:
        load(text, where="x.yaml", layers=LAYERS, workloads=WORKLOADS, read_file=no_file)
    return str(caught.value)


def alias_bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join(['*' + below] * 9)}]" for below, name in zip("abcdefgh", "bcdefghi")]  # noqa: B905
    return "\n".join(lines) + "\n" + STACKS


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (alias_bomb(), "too long or refers to itself"),
        ("stacks: &a [*a]\n", "refers to itself"),
        (
            "stacks: !!python/object/apply:os.system ['echo', 'x']\n",
            "object/apply:os.system has no meaning",
        ),
        ("name: !!python/object/apply:os.system ['echo']\n" + STACKS, "has no meaning"),
        ("base: &a {name: x}\n<<: *a\n" + STACKS, "no key"),
        (f"seed: {'9' * 5000}\n" + STACKS, "seed cannot be"),
        ("seed: 1e999\n" + STACKS, "seed cannot be"),
        (f"rule: {{budget: {'9' * 25}h}}\n" + STACKS, "longer than any run"),
        ("rule: {rounds: .inf, confidence: .nan}\n" + STACKS, "rounds cannot be"),
        ("stacks: " + "[" * 400 + "]" * 400, "recursion|deeply"),
        ("".join(" " * depth + "a:\n" for depth in range(300)), "recursion|deeply"),
        (STACKS + STACKS, "duplicate|written twice"),
        ("stacks: ['disk | ext4\0']\n", "not YAML"),
        (STACKS + "---\n" + STACKS, "single document"),
        ("? [a, b]\n: 1\n" + STACKS, "not hashable|a key is a plain word"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", value)[:30],
)
def test_yaml_that_means_harm_is_refused(text: str, what: str) -> None:
    assert re.search(what, refused(text)), refused(text)


def test_reading_stops_at_the_limit_and_not_at_the_end_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_VALUES", 100)
    problems = Problems()
    # what follows is not YAML, and a parser that got there would say so
    assert document.read("a: [" + "x, " * 400 + "]\n" + "x\n" * 100_000 + "]\n", "x.yaml", problems) is None
    assert ["more than 100 values" in problem.message for problem in problems.found] == [True]


def test_profiles_are_limited() -> None:
    many = "".join(f"  p{number}: {{rule: {{rounds: 1}}}}\n" for number in range(MAX_PROFILES + 1))
    assert f"there are {MAX_PROFILES + 1} profiles" in refused(STACKS + "profiles:\n" + many)


def test_the_limit_of_stacks_holds_for_all_expressions_together() -> None:
    matrix = "disk | " + " | ".join(["{scheduler(none), scheduler(bfq)}"] * 16)
    assert 2**16 < MAX_COMBINATIONS < 2**17
    said = refused(f"stacks: ['{matrix} | ext4', '{matrix} | xfs']\n")
    assert f"more than {MAX_COMBINATIONS} stacks" in said and "split the campaign" in said


@pytest.mark.parametrize("nest", ["({", "{(", "((", "{{"])
def test_brackets_by_the_thousand_are_refused(nest: str) -> None:
    with pytest.raises(BadInput, match="nested more than"):
        parse_stacks(nest * 50_000 + "disk", LAYERS)


def test_a_product_of_a_billion_is_refused_before_it_is_made() -> None:
    with pytest.raises(BadInput, match=f"more than {MAX_COMBINATIONS} stacks"):
        parse_stacks("disk | " + " | ".join(["{ext4, xfs}"] * 30), LAYERS)
    with pytest.raises(BadInput, match="more than 1000 disks"):
        parse_stacks("999*(999*disk | md) | md | ext4", LAYERS)


@pytest.mark.parametrize("sign", ["\\e", "\\a", "\\0", "\\x9b", "\\u202e", "\\u2066", "\\uD800"])
def test_a_name_with_a_control_character_is_refused_and_not_printed(sign: str) -> None:
    for text in (
        f'name: "a{sign}]52;c;x"\n' + STACKS,
        f'about: "a{sign}b"\n' + STACKS,
        f'stacks: ["disk | ext4({sign})"]\n',
        f'stacks: [disk | ext4]\nworkloads: ["command:\\"{sign}\\""]\n',
        f'"a{sign}b": 1\n' + STACKS,
    ):
        said = refused(text)
        assert "control character U+" in said
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", said)


def test_a_control_character_of_the_command_line_is_refused_and_not_printed() -> None:
    with pytest.raises(BadInput) as caught:
        parse_stacks("disk | \x1b]52;c;x\a", LAYERS)
    assert "control character U+001B" in str(caught.value)
    assert "\x1b" not in str(caught.value) and "\a" not in str(caught.value)


def test_a_script_that_a_stored_campaign_holds_may_colour_its_output() -> None:
    problems = Problems()
    found = document.read('files: {"a.sh": "printf \'\\e[31m\'\\n"}\n', "x.yaml", problems)
    assert found is not None and found.data["files"]["a.sh"] == "printf '\x1b[31m'\n" and not problems.found


def test_line_ends_in_expressions_stay_white_space() -> None:
    assert [stack.text for stack in stacks.parse_stacks("disk\r\n|\text4", LAYERS)] == ["disk | ext4"]
