"""What lies beside a Vagrantfile, brought to where `vagrant up` runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from strata.model import Call, Command, Kind, Target
from strata.workloads import workloads

pytestmark = pytest.mark.host


def lying(content: str, file: str) -> Call:
    return Call("vagrant:", "vagrant:x", {"timeout": 3600.0, "content": content, "file": file}, path="x")


def carried_out(command: Command) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command.argv, capture_output=True, text=True)


def test_what_lies_beside_the_file_comes_along(tmp_path: Path) -> None:
    own, scratch = tmp_path / "own", tmp_path / "scratch"
    for directory in (own / "shared", own / ".vagrant", scratch):
        directory.mkdir(parents=True)
    for name in ("site.rb", "provision.sh", "shared/data", ".vagrant/state", "Vagrantfile"):
        (own / name).write_text(name)
    (scratch / "Vagrantfile").write_text("site.rb")
    spec = lying("site.rb", str(own / "site.rb"))
    workload = workloads()["vagrant:"]
    (check,) = workload.checks(spec)
    assert carried_out(check).returncode == 0
    (bring,) = workload.plan(spec, Target(Kind.DIRECTORY, "/t", None), str(scratch), 1).prepare
    assert carried_out(bring).returncode == 0
    assert (scratch / "provision.sh").read_text() == "provision.sh" and (scratch / "shared" / "data").exists()
    assert (scratch / "Vagrantfile").read_text() == "site.rb" and not (scratch / ".vagrant").exists()


def test_a_file_of_another_machine_comes_alone_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "Vagrantfile").write_text("x")
    spec = lying("x", "/not/here/Vagrantfile")
    (bring,) = workloads()["vagrant:"].plan(spec, Target(Kind.DIRECTORY, "/t", None), str(tmp_path), 1).prepare
    assert carried_out(bring).returncode == 0
    assert "beside it is on another machine" in (tmp_path / ".strata" / "alone").read_text()


def test_a_large_directory_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "Vagrantfile").write_text("x")
    with (tmp_path / "image").open("wb") as image:
        image.truncate(65 << 20)
    (check,) = workloads()["vagrant:"].checks(lying("x", f"{tmp_path}/Vagrantfile"))
    refused = carried_out(check)
    assert refused.returncode == 1 and "directory with only what it needs" in refused.stderr
