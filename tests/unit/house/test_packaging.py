"""What is installed is locked, the same everywhere, and complete."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = sorted((ROOT / "requirements").glob("*.txt"))


def locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+)", text, re.MULTILINE))


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9.-]", requirement)[0].lower().replace(".", "-")


def written(name: str) -> list[str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.name)
def test_every_locked_package_has_hashes_and_no_address(path: Path) -> None:
    text = path.read_text()
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9-]+(\[[a-z,]+\])?==\S+ ", entry) and "--hash=sha256:" in entry, entry


def test_what_is_asked_for_is_locked() -> None:
    assert {name_of(line) for line in PROJECT["project"]["dependencies"]} <= locked("run.txt").keys()
    assert {name_of(line) for line in written("dev.in")} <= locked("dev.txt").keys()
    assert written("build.in") == PROJECT["build-system"]["requires"]


def test_a_package_has_one_version() -> None:
    run, build, dev = locked("run.txt"), locked("build.txt"), locked("dev.txt")
    for name in (run.keys() & dev.keys()) | (run.keys() & build.keys()) | (build.keys() & dev.keys()):
        assert len({versions[name] for versions in (run, build, dev) if name in versions}) == 1, name


def test_the_engine_has_the_version_of_the_package() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    assert (cargo["version"], cargo["license"]) == (PROJECT["project"]["version"], PROJECT["project"]["license"])


def test_the_oldest_supported_rust_is_what_the_set_up_says() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    for script in ["os-packages.sh", "install-package.sh"]:
        assert cargo["rust-version"] in (ROOT / "scripts" / script).read_text()
