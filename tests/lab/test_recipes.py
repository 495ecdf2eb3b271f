"""Recipes in a fresh lab machine: what the layers say of what the script built, before and after a restart."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from strata.advice import requirements
from strata.advice.advise import advise
from strata.campaign import parse_stacks
from strata.layers import catalogue, drivers
from strata.published.documented import documents
from strata.recipes import plan, shell
from strata.recipes.formats import formats
from strata.recipes.formats._parts import mount_of, restarts
from strata.recipes.plan import Recipe
from strata.units import parse_size

from .lab_runs import STRATA, built, lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

_MARK = "==== answers"

_APPLIED = """\
set -e
PATH=$PATH:/usr/sbin
cat >/root/recipe.sh <<'RECIPE_OF_STRATA'
{script}
RECIPE_OF_STRATA
sh /root/recipe.sh apply >&2
"""

# Asks what was applied, ends what a restart ends, applies again, asks, and takes it away.
_WORK = (
    _APPLIED
    + """\
echo '{mark}'; sh /root/recipe.sh inspect
{{ {stop}; }} >&2
sh /root/recipe.sh check >&2 && {{ echo "what was ended is not noticed" >&2; exit 1; }}
sh /root/recipe.sh apply >&2
echo '{mark}'; sh /root/recipe.sh inspect
sh /root/recipe.sh remove >&2 && {{ echo "data are given up without a message" >&2; exit 1; }}
sh /root/recipe.sh remove --destroy-data >&2
echo '{mark}'
for device in {devices}; do wipefs --noheadings --output TYPE "$device"; done
lsblk --noheadings --list --output TYPE | sort -u
"""
)


@dataclass(frozen=True)
class Case:
    stack: str
    disks: tuple[tuple[str, str], ...]  # role, size
    stop: str  # what a restart of the machine does to it
    features: str = ""


def first_of(requirements_file: str) -> str:
    """The first candidate that has all that the file requires."""
    path = Path(__file__).parents[2] / "campaigns" / "requirements" / requirements_file
    known = documents()
    wanted = requirements.read(path.read_text(), path.name, known.features)
    stacks = [stack for text in wanted.candidates for stack in parse_stacks(text, catalogue())]
    return advise(stacks, {}, wanted, drivers(), known).unmeasured[0].stack


CASES = {
    # an SSD cache, deduplication with little memory, compression
    "study 4": Case(
        first_of("proxmox-2019.yaml"),
        (("hdd", "1G"), ("hdd", "1G"), ("ssd", "512M")),
        "umount /srv/data; dmsetup remove_all; mdadm --stop /dev/md/data-2",
    ),
    "vdo": Case('disk | vdo | xfs(mkfs="-K")', (("disk", "6G"),), "umount /srv/data; dmsetup remove_all"),
    "pool": Case(
        "2*disk | zfs(mirror=2, compression=lz4, prefetch=off)",
        (("disk", "1G"), ("disk", "1G")),
        "zpool export data-2; echo 0 >/sys/module/zfs/parameters/zfs_prefetch_disable",
        "zfs",
    ),
}


def links(disks: Sequence[tuple[str, str]]) -> list[str]:
    """How the lab names its disks: see `strata lab shell --disk`."""
    return [f"/dev/disk/by-id/virtio-{role}{number}" for number, (role, _) in enumerate(disks)]


def made(case: Case) -> Recipe:
    (stack,) = parse_stacks(case.stack, catalogue())
    words = [f"{role}={link}" for (role, _), link in zip(case.disks, links(case.disks), strict=True)]
    sizes = {role: parse_size(size) for role, size in case.disks}
    return plan.recipe(stack, drivers(), plan.mapped(words, sizes), accept_loss=True)


@pytest.mark.parametrize("name", CASES)
def test_a_fresh_machine_gets_the_stack_that_was_measured(name: str) -> None:
    case = CASES[name]
    recipe = made(case)
    text = _WORK.format(script=shell.render(recipe), mark=_MARK, stop=case.stop, devices=" ".join(links(case.disks)))
    argv = [STRATA, "lab", "shell", *(["--with", case.features] if case.features else [])]
    argv += [word for role, size in case.disks for word in ("--disk", f"{role}={size}")]
    done = subprocess.run(argv, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    _, first, again, after = done.stdout.split(f"{_MARK}\n")
    assert recipe.differences(shell.seen(recipe, first)) == []
    assert recipe.differences(shell.seen(recipe, again)) == []
    assert after.split() == ["disk"], "something of it is left"


# Ends what a restart ends, takes a disk away, and does what the units of systemd do at the next boot.
_ONE_LESS = (
    _APPLIED
    + """\
echo kept >/srv/data/file
{{ {stop}; }} >&2
disk=$(readlink -f {lost})
virtio=$(readlink -f "/sys/block/${{disk##*/}}/device")
echo "${{virtio##*/}}" >/sys/bus/virtio/drivers/virtio_blk/unbind
udevadm settle
[ ! -e "$disk" ]
{starts}
cat /srv/data/file
"""
)


@pytest.mark.parametrize(
    ("stack", "stop"),
    [
        ("2*disk | md(raid1) | ext4", "umount /srv/data; mdadm --stop /dev/md/data-2"),
        (
            "2*disk | md(raid1) | lvmthin | xfs",
            "umount /srv/data; dmsetup remove_all; mdadm --stop /dev/md/data-2",
        ),
        ("2*disk | lvm(raid1) | ext4", "umount /srv/data; dmsetup remove_all"),
        ("2*disk | zfs(mirror=2)", "zpool export data-2"),
    ],
)
def test_a_mirror_comes_back_after_a_restart_without_one_of_its_disks(stack: str, stop: str) -> None:
    case = Case(stack, (("disk", "1G"), ("disk", "1G")), stop)
    recipe = made(case)
    # the service waits for the disks and goes on without one
    assert any("# wait for the disks" in file.text for file in formats()["systemd"].write(recipe))
    starts = [shlex.join(command.argv) for _, command in restarts(recipe)]
    if (mount := mount_of(recipe)) is not None:
        starts.append(f"mount UUID={mount.uuid} {mount.path}")
    text = _ONE_LESS.format(script=shell.render(recipe), stop=stop, lost=links(case.disks)[0], starts="\n".join(starts))
    argv = [STRATA, "lab", "shell", "--with", "zfs"]
    argv += [word for role, size in case.disks for word in ("--disk", f"{role}={size}")]
    done = subprocess.run(argv, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.split() == ["kept"]


# What a recipe of LVM leaves running and kept; `again`: after what a restart ends.
_KEPT = (
    _APPLIED
    + """\
ls /etc/lvm/backup /etc/lvm/archive >&2
[ -s /etc/lvm/backup/data-1 ]
echo '{mark}'; lvs --noheadings --options chunk_size,lv_when_full,seg_monitor --units k data-1/pool
{{ {stop}; }} >&2
sh /root/recipe.sh apply >&2
echo '{mark}'; lvs --noheadings --options chunk_size,lv_when_full,seg_monitor --units k data-1/pool
echo '{mark}'; sh /root/recipe.sh inspect
"""
)


def test_a_thin_pool_is_watched_and_its_metadata_are_kept() -> None:
    case = Case("disk | lvmthin | ext4", (("disk", "1G"),), "umount /srv/data; dmsetup remove_all")
    recipe = made(case)
    text = _KEPT.format(script=shell.render(recipe), mark=_MARK, stop=case.stop)
    argv = [STRATA, "lab", "shell", "--disk", "disk=1G"]
    done = subprocess.run(argv, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    _, first, again, seen = done.stdout.split(f"{_MARK}\n")
    assert first.split() == again.split() == ["64.00k", "queue", "monitored"]
    assert recipe.differences(shell.seen(recipe, seen)) == []


# Of the ways that the study weighed: three that have all it required, and one that cannot deduplicate.
_WEIGHED = [
    "(2*hdd | md(raid1)) + ssd | lvmcache({writeback, writethrough}) | btrfs(compress=zstd)",
    '(2*hdd | md(raid1)) + ssd | lvmcache | {vdo | xfs(mkfs="-K"), ext4}',
]
_BUILT = (
    _APPLIED
    + """\
sh /root/recipe.sh inspect
"""
)


def test_what_study_4_requires_is_measured_chosen_and_built_again_by_commands_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    view = lab_run(run, _WEIGHED, "fio/randrw-75-25(runtime=3s, size=32M)", "--size", "hdd=4G", "--size", "ssd=1G")
    assert not view.failed and not view.skipped and len(view.trials) == 4

    def strata(*argv: str, said: str | None = None) -> str:
        done = subprocess.run([STRATA, *argv], input=said, capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout

    required = Path(__file__).parents[2] / "campaigns" / "requirements" / "proxmox-2019.yaml"
    advice = json.loads(strata("advise", str(required), "--from", str(run), "--json"))
    choice = advice["choice"]["judged"]
    assert choice["stack"] in view.stacks and all(answer["met"] and answer["why"] for answer in choice["answers"])
    assert any(each["stack"].endswith("| ext4") for each in advice["ruled_out"])

    disks = (("hdd", "4G"), ("hdd", "4G"), ("ssd", "1G"))
    maps = [word for (role, _), link in zip(disks, links(disks), strict=True) for word in ("--map", f"{role}={link}")]
    maps += [word for role, size in dict(disks).items() for word in ("--size", f"{role}={size}")]
    script = strata("recipe", str(run), choice["stack"], "--as", "shell", *maps)
    plugged = [word for role, size in disks for word in ("--disk", f"{role}={size}")]
    seen = tmp_path / "seen"
    seen.write_text(strata("lab", "shell", *plugged, said=_BUILT.format(script=script)))
    assert "OK: the system matches the recipe." in strata(
        "recipe", str(run), choice["stack"], *maps, "--seen", str(seen)
    )


# Of what `strata recipe --as docker` writes: each driver and each option that goes with it.
_OF_DOCKER = (
    "disk | ext4",
    "disk | btrfs(quotas) | docker(btrfs, base_size=1G)",
    "disk | xfs(pquota) | docker(overlay2, base_size=1G)",
    "disk | zfs | docker(zfs, base_size=1G)",
    "disk | ext4 | docker(vfs)",
)


def test_the_daemon_of_docker_takes_its_configuration() -> None:
    """Docker 23 and newer can be asked, which Debian 12 has not."""
    built("containers")
    texts = []
    for expression in _OF_DOCKER:
        (stack,) = parse_stacks(expression, catalogue())
        given = plan.mapped(["disk=/dev/disk/by-id/wwn-0"], {})
        texts.append(formats()["docker"].write(plan.recipe(stack, drivers(), given))[0].text)
    broken = texts[0].replace("storage-driver", "storage-drivr")
    asked = "".join(
        f"cat >/root/{number}.json <<'EOF'\n{text}EOF\n"
        f"dockerd --validate --config-file /root/{number}.json >&2 && echo {number} taken\n"
        for number, text in enumerate([*texts, broken])
    )
    argv = [STRATA, "lab", "shell", "--with", "containers"]
    done = subprocess.run(argv, input=f"PATH=$PATH:/usr/sbin\n{asked}true\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{number} taken" for number in range(len(texts))], done.stderr[-3000:]


# Applies the recipe of the storage, and has a daemon make its pool as that recipe says, twice, and a volume in it.
_POOL = """\
set -e
PATH=$PATH:/usr/sbin:/usr/libexec/incus
export INCUS_DIR=/root/daemon LXD_DIR=/root/daemon
mkdir /root/daemon
cat >/root/recipe.sh <<'RECIPE_OF_STRATA'
{script}
RECIPE_OF_STRATA
cat >/root/pool.sh <<'RECIPE_OF_STRATA'
{pool}
RECIPE_OF_STRATA
sh /root/recipe.sh apply >&2
{daemon} --group root --logfile /root/daemon.log >&2 &
trap "kill $!" EXIT
number=0
until {client} query /1.0 >/dev/null 2>&1; do
  number=$((number + 1)); [ "$number" -lt 300 ] || {{ tail /root/daemon.log >&2; exit 1; }}
  sleep 0.5
done
sh /root/pool.sh >&2
sh /root/pool.sh >&2
{client} storage volume create {name} one >&2 </dev/null
echo '{mark}'; {client} query /1.0/storage-pools/{name}
echo '{mark}'; {{ {seen}; }}
{client} storage volume delete {name} one >&2
{client} storage delete {name} >&2
"""


@pytest.mark.parametrize(
    ("expression", "seen"),
    [
        ("disk | ext4 | {}(dir)", "find /srv/data -name '*one'"),
        ("disk | btrfs | {}(btrfs)", "btrfs subvolume list /srv/data"),
        ("disk | zfs | {}(zfs)", "zfs list -H -o name"),
        ("disk | lvmthin(zero=off) | {}(lvm)", "lvs --noheadings -o lv_name"),
    ],
)
@pytest.mark.parametrize(("layer", "client", "daemon"), [("incus", "incus", "incusd"), ("lxd", "lxc", "lxd")])
def test_a_daemon_makes_its_pool_as_the_recipe_says(
    expression: str, seen: str, layer: str, client: str, daemon: str
) -> None:
    built("containers", "zfs")
    (stack,) = parse_stacks(expression.format(layer), catalogue())
    given = plan.mapped(["disk=/dev/disk/by-id/virtio-disk0"], {"disk": parse_size("4G")})
    recipe = plan.recipe(stack, drivers(), given)
    script, pool = shell.render(recipe), formats()[layer].write(recipe)[0].text
    work = _POOL.format(script=script, pool=pool, daemon=daemon, client=client, name=recipe.name, mark=_MARK, seen=seen)
    argv = [STRATA, "lab", "shell", "--with", "containers,zfs", "--disk", "disk=4G"]
    done = subprocess.run(argv, input=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    _, told, found = done.stdout.split(f"{_MARK}\n")
    backend = expression.rpartition("(")[2].rstrip(")")
    assert json.loads(told)["driver"] == backend
    assert [line for line in found.splitlines() if line.endswith("one")], found
