"""Recipes in other formats, read by the programs that they are for, where those are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.recipes import plan
from strata.recipes.formats import formats

pytestmark = pytest.mark.host

STACKS = {
    "plain": ("disk | ext4(noatime)", ["disk"]),
    "guest": ("2*hdd | md(raid1) | lvmthin | xfs(noatime) | qcow2(size=1G) | vm(cache=writeback, write_iops=100)",
              ["hdd", "hdd"]),
    "pool": ("disk | zfs(prefetch=off)", ["disk"]),
    "set": ("disk | zfs(compression=zstd)", ["disk"]),
    "mirror": ("2*disk | md(raid1) | xfs(noatime)", ["disk", "disk"]),
    "engine": ("disk | xfs(pquota) | podman(base_size=1G)", ["disk"]),
}  # fmt: skip


def written(form: str, case: str, directory: Path) -> list[Path]:
    text, roles = STACKS[case]
    (stack,) = parse_stacks(text, catalogue())
    given = plan.mapped([f"{role}=/dev/disk/by-id/wwn-{number}" for number, role in enumerate(roles)], {})
    paths = []
    for file in formats()[form].write(plan.recipe(stack, drivers(), given)):
        paths.append(directory / file.name)
        paths[-1].write_text(file.text)
    return paths


def needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} is not installed")


def accepted(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and not done.stdout.strip(), (done.stdout, done.stderr)
    assert not done.stderr.strip(), done.stderr


@pytest.mark.parametrize("case", ["plain", "guest", "pool"])
def test_systemd_takes_the_units(case: str, tmp_path: Path) -> None:
    needs("systemd-analyze")
    units = [str(path) for path in written("systemd", case, tmp_path)]
    assert units
    accepted("systemd-analyze", "verify", "--man=no", *units)
    broken = Path(units[0])
    broken.write_text(broken.read_text().replace("[Unit]", "[Unit]\nNoSuchWord=1"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", units[0]], capture_output=True, text=True)
    assert "NoSuchWord" in done.stderr, "this systemd says nothing of words that it does not know"


@pytest.mark.parametrize("case", ["plain", "guest", "pool"])
def test_ansible_takes_the_playbook(case: str, tmp_path: Path) -> None:
    needs("ansible-playbook")
    (playbook,) = written("ansible", case, tmp_path)
    argv = ["ansible-playbook", "--syntax-check", "-i", "localhost,", str(playbook)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_libvirt_takes_the_pool(tmp_path: Path) -> None:
    needs("virt-xml-validate", "xmllint")
    for case in ("plain", "guest", "pool"):
        file = written("libvirt", case, tmp_path)[0]
        argv = ["virt-xml-validate", str(file), "storagepool"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0 and done.stderr.strip() == f"{file} validates", done.stderr
    file.write_text(file.read_text().replace("<name>", "<nam>").replace("</name>", "</nam>"))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode != 0, "this libvirt takes words that it does not know"


@pytest.mark.parametrize("case", ["plain", "engine"])
def test_podman_takes_the_storage(case: str, tmp_path: Path) -> None:
    needs("podman")
    (file,) = written("podman", case, tmp_path)
    # What Podman looks at it makes: below the test's own directory, and not where the recipe puts it.
    text = file.read_text().replace("/srv/data", f"{tmp_path}/data").replace("/run/containers", f"{tmp_path}/run")
    file.write_text(text.replace('size = "', '# size = "'))  # only XFS with quotas lets it
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(file)}
    argv = ["podman", "info", "--format", "{{.Store.GraphDriverName}} {{.Store.GraphRoot}} {{.Store.RunRoot}}"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["overlay", f"{tmp_path}/data/containers", f"{tmp_path}/run/storage"]


def test_docker_takes_the_configuration(tmp_path: Path) -> None:
    needs("dockerd")
    told = subprocess.run(["dockerd", "--help"], capture_output=True, text=True, timeout=100).stdout
    if "--validate" not in told:
        pytest.skip("this Docker reads a configuration only to start with it; 23 or newer has --validate")
    for case in ("plain", "mirror"):
        file = written("docker", case, tmp_path)[0]
        argv = ["dockerd", "--validate", "--config-file", str(file)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
    file.write_text(file.read_text().replace("storage-driver", "storage-drivr"))
    assert subprocess.run(argv, capture_output=True, timeout=100).returncode != 0


@pytest.mark.parametrize("case", ["plain", "mirror"])
def test_mount_reads_the_line_of_fstab(case: str, tmp_path: Path) -> None:
    needs("findmnt")
    (file,) = written("fstab", case, tmp_path)
    argv = ["findmnt", "--tab-file", str(file), "--noheadings", "--raw", "--output", "TARGET,FSTYPE,OPTIONS"]
    found = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True).stdout.split()
    assert found[:2] == ["/srv/data", {"plain": "ext4", "mirror": "xfs"}[case]] and "noatime" in found[2]


@pytest.mark.parametrize("case", ["plain", "set", "mirror"])
def test_nix_reads_the_configuration_of_disko(case: str, tmp_path: Path) -> None:
    needs("nix-instantiate")
    (file,) = written("disko", case, tmp_path)
    subprocess.run(["nix-instantiate", "--parse", str(file)], check=True, capture_output=True, timeout=100)


@pytest.mark.parametrize("client", ["incus", "lxd"])
def test_a_pool_of_the_name_that_is_another_is_left_alone(client: str, tmp_path: Path) -> None:
    (script,) = written(client, "set", tmp_path)
    program = tmp_path / {"incus": "incus", "lxd": "lxc"}[client]

    def run(shown: str) -> subprocess.CompletedProcess[str]:
        """With a client that shows this as the pool, and says what it is asked to make."""
        program.write_text(f'#!/bin/sh\n[ "$2" = create ] && {{ echo "$@"; exit; }}\n{shown}\n')
        program.chmod(0o755)
        return subprocess.run(
            ["sh", str(script)], capture_output=True, text=True, env=os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        )

    assert "storage create data zfs" in run("exit 1").stdout
    ours = run(f"printf 'config:\\n  source: data-1/{client}\\ndriver: zfs\\n'")
    assert (ours.returncode, ours.stdout) == (0, "")
    for other in ("source: tank\\ndriver: zfs", f"source: data-1/{client}\\ndriver: dir"):
        refused = run(f"printf 'config:\\n  {other}\\n'")
        assert (refused.returncode, refused.stdout) == (3, "") and "another pool is called data" in refused.stderr
