"""Every text comes out of a script or unit as it went in, whatever signs it has: parsed back as sh and systemd do."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.model import Call, Command, LayerDriver, Place, Provides, Step
from strata.recipes import plan, shell
from strata.recipes.formats import _units, formats
from strata.recipes.plan import Recipe

HOSTILE = 'it\'s $(id) `id` ; "${HOME}" & | > x \\ %n * #'
DEVICE = "/dev/disk/by-id/usb-it's;$(id)%n\\&\"x"


class Hostile:
    """A layer like another, whose every text is hostile."""

    def __init__(self, driver: LayerDriver) -> None:
        self.driver = driver

    def __getattr__(self, name: str) -> object:
        return getattr(self.driver, name)

    def plan_create(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Step]:
        told = Command(("tool", HOSTILE), stdin=HOSTILE)
        script = Command(("sh", "-c", 'echo "$1"', "sh", HOSTILE, "last"))
        return [Step(script, told, HOSTILE, again=Command(("again", HOSTILE)))]

    def plan_inspect(self, spec: Call, below: Sequence[Provides], place: Place) -> list[Command]:
        return [Command(("ask", HOSTILE))]


def hostile(text: str = "disk | xfs(mkfs=\"-m crc=1 -L 'a b'\")", device: str = DEVICE) -> Recipe:
    (stack,) = parse_stacks(text, catalogue())
    recipe = plan.recipe(stack, drivers(), plan.mapped([f"disk={device}"], {}))
    last = recipe.layers[-1]
    layers = (*recipe.layers[:-1], replace(last, driver=Hostile(last.driver)))
    return replace(recipe, layers=layers)


def body(script: str, name: str) -> list[str]:
    """The words of the command that a function of one line holds, as sh reads them."""
    (line,) = re.findall(rf"^{name}\(\) \{{ (.*); \}}$", script, re.MULTILINE)
    return shlex.split(line)


def test_a_shell_reads_every_word_as_it_was_meant() -> None:
    recipe = hostile()
    script = shell.render(recipe)
    number = len([step for layer in recipe.layers for step in layer.steps()])
    program, *words = body(script, f"do_{number}")
    assert program.startswith("program_") and words == [HOSTILE, "last"]
    assert body(script, f"undo_{number}") == ["printf", "%s", HOSTILE, "|", "tool", HOSTILE]
    assert body(script, f"again_{number}") == ["again", HOSTILE]
    assert body(script, f"why_{number}") == ["echo", HOSTILE]
    questions = len([command for layer in recipe.layers for command in layer.inspection()])
    assert body(script, f"ask_{questions}") == ["ask", HOSTILE]
    assert body(script, f"layer_{questions}") == ["echo", recipe.layers[-1].node.call.text]


def test_the_settings_of_a_script_are_read_as_they_were_meant() -> None:
    recipe = hostile()
    script = shell.render(recipe)
    settings = {}
    for line in script.splitlines():
        if re.match(r"(name|state|made|mount|devices|places|programs)=", line):
            (word,) = shlex.split(line)
            name, _, value = word.partition("=")
            settings.setdefault(name, value)
    assert settings["devices"] == DEVICE
    assert settings["made"] == f"{recipe.stack} at /srv/data on disk {DEVICE}"
    assert settings["places"] == "/var/lib/strata/data/0 /var/lib/strata/data/1"
    assert (settings["name"], settings["state"], settings["mount"]) == ("data", "/var/lib/strata/data", "/srv/data")
    judge = shlex.split(next(line for line in script.splitlines() if line.startswith("judge()")))
    at = judge.index("strata")
    assert judge[at : at + 3] == ["strata", "recipe", recipe.stack] and f"disk={DEVICE}" in judge


def words_of(line: str) -> list[str]:
    """What systemd makes of ExecStart: C escapes in double quotes, %% and $$. Source: systemd.service(5)."""
    found = []
    for quoted in re.findall(r'"(?:[^"\\]|\\.)*"', line):
        word = ast.literal_eval(quoted)
        assert "%" not in word.replace("%%", "") and "$" not in word.replace("$$", "")
        found.append(word.replace("%%", "%").replace("$$", "$"))
    return found


def test_systemd_reads_every_word_as_it_was_meant() -> None:
    recipe = hostile("disk | partition | xfs")
    service = next(file for file in _units.units(recipe) if file.name == "strata-data.service")
    started = [line.partition(" ")[2] for line in service.text.splitlines() if line.startswith("ExecStart=")]
    assert ["again", HOSTILE] in [words_of(line) for line in started]
    find = next(step.again for layer in recipe.layers for step in layer.steps() if step.again is not None)
    assert list(find.argv) in [words_of(line) for line in started]
    assert f"# {HOSTILE}" in service.text


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/srv/data", "srv-data.mount"),
        ("/srv/a-b", "srv-a\\x2db.mount"),
        ("/.hidden/x", "\\x2ehidden-x.mount"),
        ("/srv/a@b+c_d", "srv-a\\x40b\\x2bc_d.mount"),
        ("/srv/é%", "srv-\\xc3\\xa9\\x25.mount"),
    ],
)
def test_a_path_becomes_the_name_of_its_unit(path: str, unit: str) -> None:
    assert _units.unit_of(path, "mount") == unit


def test_units_name_hostile_devices_and_mounts_by_their_escaped_names() -> None:
    (stack,) = parse_stacks("disk | partition | xfs", catalogue())
    given = plan.mapped([f"disk={DEVICE}"], {})
    files = _units.units(plan.recipe(stack, drivers(), given, mount="/srv/a-b@c"))
    service = next(file.text for file in files if file.name == "strata-data.service")
    device = _units.unit_of(DEVICE, "device")
    assert f"\nRequires={device}\n" in service and "'" not in device and ";" not in device and "%" not in device
    assert "srv-a\\x2db\\x40c.mount" in [file.name for file in files]
    assert "systemctl is-active strata-data.service 'srv-a\\x2db\\x40c.mount'" in service


@pytest.mark.parametrize("form", ["incus", "lxd"])
def test_a_client_gets_its_words_as_they_were_meant(form: str) -> None:
    (stack,) = parse_stacks("disk | ext4", catalogue())
    recipe = plan.recipe(stack, drivers(), plan.mapped(["disk=/dev/disk/by-id/a"], {}))
    last = recipe.layers[-1]
    layers = (*recipe.layers[:-1], replace(last, provides=replace(last.provides, path=f"/srv/{HOSTILE}")))
    text = formats()[form].write(replace(recipe, layers=layers))[0].text
    directory = f"/srv/{HOSTILE}/{form}"
    lines = [shlex.split(line) for line in text.splitlines() if not line.startswith("#") and "$there" not in line]
    assert ["mkdir", "-p", "--", directory] in lines
    client = {"incus": "incus", "lxd": "lxc"}[form]
    assert [client, "storage", "create", "data", "dir", f"source={directory}", "</dev/null"] in lines
    (looked_for,) = re.findall(r"grep -qF (.*); then exit 0; fi", text)
    assert shlex.split(looked_for) == [directory]
    (driver,) = re.findall(r"grep -qx (.*) &&", text)
    assert shlex.split(driver) == ["driver: dir"]


def test_nix_reads_every_text_as_it_was_meant() -> None:
    from strata.recipes.formats import disko

    quoted = disko._nix({"a b": f'{HOSTILE} ${{x}} "q" \\'})
    assert '"a b" = ' in quoted
    (text,) = re.findall(r'= ("(?:[^"\\]|\\.)*");', quoted)
    assert not re.search(r"(?<!\\)\$\{", text)
    assert ast.literal_eval(text.replace("\\$", "$")) == f'{HOSTILE} ${{x}} "q" \\'
