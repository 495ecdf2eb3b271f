"""A recipe is run as root: no text from a run becomes a command in it, or hides in it."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers
from strata.model import Stack
from strata.recipes import plan
from strata.recipes.formats import formats
from strata.recipes.written import File

NOTES = (
    "Measured in the campaign x\nrm -rf /srv\n on Debian.",
    "a\r\nrm -rf /srv\rrm -rf /srv\u2028rm -rf /srv\x0brm -rf /srv\x85rm -rf /srv",
    "\x1b[2J\x1b]52;c;aGk=\x07\x9b2J\u202e\x00\ud800",
    "$(rm -rf /srv) `rm -rf /srv` ${HOME} --> <evil/> */ '\" \\",
)
STACKS = {
    "disk | ext4(noatime)": ["disk"],
    "disk | btrfs | docker(btrfs)": ["disk"],
    "disk | lvmthin | incus(lvm)": ["disk"],
    "2*disk | zfs(mirror=2)": ["disk", "disk"],
    "disk | ext4 | qcow2(size=16G) | vm": ["disk"],
}


def written(name: str, stack: Stack, roles: list[str], notes: tuple[str, ...]) -> tuple[File, ...]:
    given = plan.mapped([f"{role}=/dev/disk/by-id/wwn-{number}" for number, role in enumerate(roles)], {})
    return formats()[name].write(plan.recipe(stack, drivers(), given, notes=notes))


def one(text: str) -> Stack:
    (stack,) = parse_stacks(text, catalogue())
    return stack


@pytest.mark.parametrize("name", formats())
@pytest.mark.parametrize("text", STACKS)
def test_notes_of_a_run_stay_in_their_comments(name: str, text: str) -> None:
    try:
        plain = written(name, one(text), STACKS[text], ())
    except BadInput:
        return  # this format has no word for the stack
    hostile = written(name, one(text), STACKS[text], NOTES)
    for clean, file in zip(plain, hostile, strict=True):
        lines = file.text.replace("\r", "\n").split("\n")
        assert not [line for line in lines if line.startswith("rm -rf /srv")]
        if file.name.endswith(".txt"):
            continue  # for people: no program reads it
        if file.name.endswith(".xml"):
            assert ElementTree.canonicalize(file.text) == ElementTree.canonicalize(clean.text)
            continue
        added = set(file.text.splitlines()) - set(clean.text.splitlines())
        assert all(line.lstrip().startswith("#") for line in added), added


def test_a_note_cannot_end_what_ansible_takes_as_it_is() -> None:
    note = ("x {% endraw %}{{ lookup('pipe', 'id') }}{% raw %}",)
    with pytest.raises(BadInput, match="words of Jinja"):
        written("ansible", one("disk | ext4"), ["disk"], note)
    assert written("shell", one("disk | ext4"), ["disk"], note)


@pytest.mark.parametrize("sign", ["\n", "\r", "\x1b", "\x9b", "\u202e", "\x00", "\u2028"])
def test_a_stack_with_a_hidden_character_has_no_recipe(sign: str) -> None:
    stack = replace(one("disk | ext4"), text=f"disk | ext4(noatime){sign}rm -rf /srv")
    with pytest.raises(BadInput, match="cannot be seen"):
        plan.recipe(stack, drivers(), plan.mapped(["disk=/dev/disk/by-id/a"], {}))


def test_a_device_with_a_hidden_character_has_no_recipe() -> None:
    given = plan.mapped(["disk=/dev/disk/by-id/a\x1b[2J"], {})
    with pytest.raises(BadInput, match="cannot be seen"):
        plan.recipe(one("disk | ext4"), drivers(), given)


def test_no_file_holds_a_hidden_character() -> None:
    with pytest.raises(BadInput, match=r"a\\x1b\[2J"):
        File("name", "first\na\x1b[2J\n")


def test_a_comment_of_xml_stays_one() -> None:
    from strata.recipes.formats import libvirt

    recipe = plan.recipe(one("disk | ext4"), drivers(), plan.mapped(["disk=/dev/disk/by-id/a--->-<evil"], {}))
    file, _ = libvirt.write(recipe)
    text = libvirt._text(ElementTree.Element("pool"), replace(recipe, stack="a ---> <evil/> <!---- -"))
    assert ElementTree.fromstring(text).tag == "pool"
    assert ElementTree.fromstring(file.text).tag == "pool"
