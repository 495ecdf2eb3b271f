"""Recipes in other formats, read by the programs that they are for, where those are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.recipes import plan
from strata.recipes.formats import formats
from strata.recipes.formats._units import unit_of

pytestmark = pytest.mark.host

STACKS = {
    "plain": ("disk | ext4(noatime)", ["disk"]),
    "guest": ("2*hdd | md(raid1) | lvmthin | xfs(noatime) | qcow2(size=1G) | vm(cache=writeback, write_iops=100)",
              ["hdd", "hdd"]),
    "pool": ("disk | zfs(prefetch=off)", ["disk"]),
    "set": ("disk | zfs(compression=zstd)", ["disk"]),
    "mirror": ("2*disk | md(raid1) | xfs(noatime)", ["disk", "disk"]),
    "disks": ("disk | xfs | qcow2(size=1G) | vm(bus=virtio-scsi, iothread, discard, write_iops=100)", ["disk"]),
    "threads": ("disk | lvm | vm(iothread, detect_zeroes=on, read_bps=10M)", ["disk"]),
    "boot": ("2*disk | md(raid1) | lvm | ext4", ["disk", "disk"]),
    "engine": ("disk | xfs(pquota) | podman(base_size=1G)", ["disk"]),
}  # fmt: skip


# Of a disk on any bus, and on virtio and scsi. Source: qemu-server, PVE/QemuServer/Drive.pm, %drivedesc_base.
PROXMOX = {"cache", "aio", "discard", "detect_zeroes", "format", "iops_rd", "iops_wr", "bps_rd", "bps_wr", "iothread"}


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


@pytest.mark.parametrize("case", ["plain", "guest", "pool", "boot"])
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


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as the playbook becomes root")
def test_ansible_goes_through_the_playbook_and_changes_nothing(tmp_path: Path) -> None:
    needs("ansible-playbook")
    (playbook,) = written("ansible", "plain", tmp_path)
    playbook.write_text(playbook.read_text().replace("strata-data", "strata-t9x").replace("srv-data", "srv-t9x"))
    argv = ["ansible-playbook", "--check", "-i", "localhost,", "-c", "local", str(playbook)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "failed=0" in done.stdout, done.stdout
    assert not Path("/usr/local/sbin/strata-t9x").exists()


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
    file = written("podman", case, tmp_path)[0]
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


@pytest.mark.parametrize("case", ["plain", "mirror"])
def test_findmnt_finds_nothing_wrong_but_that_the_disk_is_not_here(case: str, tmp_path: Path) -> None:
    needs("findmnt")
    (file,) = written("fstab", case, tmp_path)

    def faults() -> list[str]:
        argv = ["findmnt", "--verify", "--tab-file", str(file)]
        clean = os.environ | {"LC_ALL": "C"}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=100, env=clean)
        told = (done.stdout + done.stderr).splitlines()
        assert "parse error" in told[-1]
        return [line for line in told if "[E]" in line or "[W]" in line or ("parse" in line and line[0] != "0")]

    # this machine has neither the mount point nor the device
    assert all("unreachable" in line for line in faults())
    file.write_text(file.read_text().rpartition("UUID")[0] + "UUID=x\n")
    assert any("parse error" in line for line in faults())


@pytest.mark.parametrize("case", ["plain", "set", "mirror"])
def test_nix_reads_the_configuration_of_disko(case: str, tmp_path: Path) -> None:
    needs("nix-instantiate")
    (file,) = written("disko", case, tmp_path)
    subprocess.run(["nix-instantiate", "--parse", str(file)], check=True, capture_output=True, timeout=100)


TIED = {"docker": ["docker"], "podman": ["podman", "podman-restart"], "incus": ["incus"], "lxd": ["lxd"]}


@pytest.mark.parametrize("form", TIED)
def test_systemd_takes_the_drop_ins(form: str, tmp_path: Path) -> None:
    needs("systemd-analyze")
    paths = {path.name: path for path in written(form, "pool", tmp_path)}
    for service in TIED[form]:
        unit = tmp_path / service / f"{service}.service"
        unit.parent.mkdir()
        written("systemd", "pool", unit.parent)  # the drop-in requires the service that imports the pool
        unit.write_text("[Service]\nExecStart=/bin/true\n")
        drop_in = unit.parent / f"{service}.service.d" / "strata-data.conf"
        drop_in.parent.mkdir()
        drop_in.write_text(paths[f"{service}-strata-data.conf"].read_text())
        accepted("systemd-analyze", "verify", "--man=no", str(unit))
        drop_in.write_text(drop_in.read_text().replace("AssertPathIsMountPoint", "AssertPathIsMontPoint"))
        argv = ["systemd-analyze", "verify", "--man=no", str(unit)]
        assert "AssertPathIsMontPoint" in subprocess.run(argv, capture_output=True, text=True).stderr


@pytest.mark.parametrize(
    "path", ["/srv/data", "/srv/a-b", "/.x/y", "/srv/a@b+c_d", "/dev/disk/by-id/it's;$(id)%n\\&\"x"]
)
def test_systemd_gives_a_path_the_same_unit(path: str) -> None:
    needs("systemd-escape")
    argv = ["systemd-escape", "--path", "--suffix=mount", path]
    told = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert unit_of(path, "mount") == told.removesuffix("\n")


def test_docker_keeps_the_settings_of_a_machine(tmp_path: Path) -> None:
    needs("jq")
    recipe = {path.name: path for path in written("docker", "plain", tmp_path)}
    (line,) = [line for line in recipe["daemon.json.txt"].read_text().splitlines() if line.startswith("  jq ")]
    there = tmp_path / "etc.json"
    there.write_text('{"log-driver": "journald", "data-root": "/var/lib/docker", "default-ulimits": {"nofile": {}}}')
    subprocess.run(
        ["sh", "-c", line.replace("/etc/docker/daemon.json", str(there))], cwd=tmp_path, check=True, timeout=100
    )
    merged = json.loads((tmp_path / "merged.json").read_text())
    ours = json.loads(recipe["daemon.json"].read_text())
    assert merged == {"log-driver": "journald", "default-ulimits": {"nofile": {}}} | ours
    assert merged["data-root"] == "/srv/data/docker"


DOMAIN = "<domain type='test'><name>x</name><memory>1</memory><os><type>hvm</type></os><devices>{}</devices></domain>"


@pytest.mark.parametrize("case", ["guest", "disks", "threads"])
def test_libvirt_takes_the_disk_of_a_guest(case: str, tmp_path: Path) -> None:
    needs("virt-xml-validate", "xmllint", "virsh")
    parts = [
        path for path in written("libvirt", case, tmp_path) if path.name in ("data-disk.xml", "data-controller.xml")
    ]
    assert parts
    domain = tmp_path / "domain.xml"
    text = DOMAIN.format("".join(path.read_text() for path in parts)).replace("<os>", "<iothreads>1</iothreads><os>")
    domain.write_text(text)
    argv = ["virt-xml-validate", str(domain), "domain"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    # libvirt's own parser, in its driver for tests, which touches nothing of the machine
    told = subprocess.run(
        ["virsh", "-c", "test:///default", f"define {domain}; dumpxml x"], capture_output=True, text=True, timeout=100
    )
    assert told.returncode == 0, told.stderr
    domain.write_text(text.replace("detect_zeroes", "detect_zeros"))
    assert subprocess.run(argv, capture_output=True, timeout=100).returncode != 0


@pytest.mark.parametrize("case", ["plain", "pool"])
def test_libvirt_defines_the_pool(case: str, tmp_path: Path) -> None:
    needs("virsh")
    file = written("libvirt", case, tmp_path)[0]
    told = subprocess.run(
        ["virsh", "-c", "test:///default", f"pool-define {file}; pool-dumpxml data"],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert told.returncode == 0 and "<name>data" in told.stdout, told.stderr


@pytest.mark.parametrize(("case", "words"), [("disks", ["100", "8"]), ("threads", ["100"])])
def test_qm_is_given_the_disk_that_was_measured(case: str, words: list[str], tmp_path: Path) -> None:
    """With a `qm` that says what it is asked; its words are those of Proxmox VE's schema (PVE/QemuServer/Drive.pm)."""
    (script,) = [path for path in written("proxmox", case, tmp_path) if path.name == "data-disk.sh"]
    (tmp_path / "qm").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "qm").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", str(script), *words], capture_output=True, text=True, env=environment, timeout=100)
    told = done.stdout.splitlines()
    assert told[:2] == ["set", "100"], done.stderr
    volume, *options = told[-1].split(",")
    assert volume == {"disks": "data:8", "threads": "/dev/data-1/volume"}[case]
    assert {option.partition("=")[0] for option in options} <= PROXMOX and "detect_zeroes" in told[-1]
    assert subprocess.run(["sh", str(script)], capture_output=True, env=environment, timeout=100).returncode == 2


@pytest.mark.parametrize("client", ["incus", "lxd"])
def test_a_pool_of_the_name_that_is_another_is_left_alone(client: str, tmp_path: Path) -> None:
    script = written(client, "set", tmp_path)[0]
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
