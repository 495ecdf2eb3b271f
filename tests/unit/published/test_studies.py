"""The published studies: every row is read, and reads as a current stack and workload."""

from __future__ import annotations

import csv
import math
import re
from importlib.resources import files
from pathlib import Path

import pytest

from strata import campaign, layers, published, workloads
from strata.errors import BadInput

DATA = files("strata.published") / "data"


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / f"{name}.csv").read_text().splitlines()))


def ready(name: str) -> campaign.Campaign:
    path = Path(__file__).parents[3] / "campaigns" / f"{name}.yaml"
    return campaign.load(
        path.read_text(), where=path.name, layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str
    )


FIGURES = [name for name in published.names() if (DATA / f"{name}.csv").is_file()]
CHARTS = [name for name in published.names() if name not in FIGURES]


@pytest.mark.parametrize("name", FIGURES)
def test_every_row_is_read_or_left_out_with_a_reason(name: str) -> None:
    study = published.study(name, layers.catalogue(), workloads.catalogue())
    kept = {(figure.printed, round(math.exp(abs(figure.goodness)), 6)) for figure in study.figures}
    for row in rows(name):
        value = float(row["value"])
        if row["metric"] == "guest_cpu" or "virtualbox" in row["stack"]:
            continue
        assert (row["stack"], round(max(value, 1 / value), 6)) in kept, row
    assert bool(study.left_out) == any("virtualbox" in row["stack"] for row in rows(name))


@pytest.mark.parametrize("name", FIGURES)
def test_different_stacks_stay_different(name: str) -> None:
    study = published.study(name, layers.catalogue(), workloads.catalogue())
    today = {figure.printed: figure.stack.text for figure in study.figures}
    assert len(set(today.values())) == len(today)


def test_more_megabytes_are_better_and_more_milliseconds_are_not() -> None:
    study = published.study("2016-lxd-backends", layers.catalogue(), workloads.catalogue())
    printed = "root | btrfs(noatime, ssd, nobarrier)"
    found = {figure.workload: figure.goodness for figure in study.figures if figure.printed == printed}
    assert found == {"dd/seqwrite-sync": math.log(94), "fio/randrw-75-25": -math.log(116566)}


def test_words_of_the_day_read_as_words_of_today() -> None:
    study = published.study("2017-host-guest-filesystems", layers.catalogue(), workloads.catalogue())
    stacks = {figure.printed: figure.stack.text for figure in study.figures}
    assert (
        stacks["raid1 | scheduler(noop) | xfs | vm(kvm) | ext4"]
        == "disk | scheduler(none) | xfs | qcow2 | vm(cpus=2, memory=2G, engine=libvirt) | ext4"
    )


def test_a_study_that_is_none() -> None:
    with pytest.raises(BadInput, match="2016-lxd-backends"):
        published.study("1999", layers.catalogue(), workloads.catalogue())


def test_findings_of_all_studies_are_there() -> None:
    found = published.findings()
    assert len(found) == len(rows("findings"))
    assert {"2015-kvm-storage", "2016-docker-drivers"} <= {finding.study for finding in found}


def test_what_a_study_timed_by_itself_is_held_against_that_figure() -> None:
    pairs = published.study("2016-docker-drivers", layers.catalogue(), workloads.catalogue()).pairs
    assert {(pair.metric, pair.better, pair.worse) for pair in pairs} == {
        *((None, "btrfs", other) for other in ("loop-lvm xfs", "direct-lvm ext4", "direct-lvm xfs", "zfs")),
        (None, "overlay", "direct-lvm ext4"),
        (None, "direct-lvm ext4", "direct-lvm xfs"),
        ("start_s", "direct-lvm ext4", "direct-lvm xfs"),
        ("stop_s", "direct-lvm ext4", "direct-lvm xfs"),
        *(("stop_s", better, "loop-lvm xfs") for better in ("direct-lvm ext4", "direct-lvm xfs", "btrfs", "zfs")),
        ("remove_s", "direct-lvm xfs", "direct-lvm ext4"),
    }


def test_no_finding_of_2016_speaks_of_a_driver_that_the_study_did_not_compare() -> None:
    pairs = published.study("2016-docker-drivers", layers.catalogue(), workloads.catalogue()).pairs
    kinds = {like for pair in pairs for like in (pair.better_like, pair.worse_like)}
    newer = ["overlay2", "vfs", "fuse-overlayfs"]
    never = [
        *(f"disk | {fs} | docker({driver})" for fs in ("ext4", "xfs", "btrfs") for driver in newer),
        *("disk | ext4 | docker", "disk | xfs(pquota) | docker(base_size=25G)", "disk | btrfs | podman(btrfs)"),
        *("disk | zfs | podman(zfs)", "disk | xfs | docker(overlay)"),
        "disk | lvmthin(chunk=512K, zero=off) | containerd(devmapper, base_size=25G, fs=ext4)",
        "disk | ext4 | docker(devicemapper, base_size=25G, fs=xfs)",  # its loop-lvm lay on XFS
    ]
    assert not [(like, text) for like in kinds for text in never if re.search(like, text)]
    (loop,) = {pair.worse_like for pair in pairs if pair.worse == "loop-lvm xfs"}
    assert re.search(loop, "disk | xfs | docker(devicemapper, base_size=25G, fs=xfs)")


def test_the_figures_of_dd_are_those_that_dd_printed() -> None:
    study = published.study("2016-lxd-backends", layers.catalogue(), workloads.catalogue())
    assert {each.metric for each in study.figures if each.workload == "dd/seqwrite-sync"} == {"dd_throughput"}


def test_a_study_says_what_its_repeats_cannot_separate() -> None:
    """The cells of 2017 on KVM are one run each and lie within 1.6 %; dd of 2016 printed whole MB/s."""
    found = {n: published.study(n, layers.catalogue(), workloads.catalogue()) for n in published.names()}
    kvm = [math.exp(-each.goodness) for each in found["2017-host-guest-filesystems"].figures]
    assert len(kvm) == 4
    assert min(kvm) / max(kvm) >= 1 - found["2017-host-guest-filesystems"].resolution
    assert 1 - found["2016-lxd-backends"].resolution <= 88 / 89
    assert found["2019-proxmox-cache-modes"].resolution == 0.0


# The campaign that repeats a study with figures.
REPEATED = {
    "2016-lxd-backends": "lxd-backends",
    "2017-host-guest-filesystems": "host-guest-filesystems",
    "2019-proxmox-cache-modes": "vm-cache-modes",
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_of_a_stack_and_workload_of_the_campaign_that_repeats_the_study(name: str) -> None:
    read = ready(REPEATED[name])
    stacks = {stack.text for stack in read.stacks}
    loads = [call.name for call in read.workloads]
    for figure in published.study(name, layers.catalogue(), workloads.catalogue()).figures:
        assert figure.stack.text in stacks, figure
        assert any(load == figure.workload or load.startswith("command:") for load in loads), figure


# The campaign that repeats a study of charts, and a stack of each kind that its findings speak of.
CAMPAIGNS = {"2015-kvm-storage": "kvm-storage", "2016-docker-drivers": "docker-drivers"}


@pytest.mark.parametrize("name", CHARTS)
def test_every_finding_is_about_stacks_of_the_campaign_that_repeats_the_study(name: str) -> None:
    read = ready(CAMPAIGNS[name])
    stacks = [stack.text for stack in read.stacks]
    study = published.study(name, layers.catalogue(), workloads.catalogue())
    assert study.pairs
    for pair in study.pairs:
        assert pair.workload in {call.name for call in read.workloads}, pair
        metrics = {metric.name for metric in workloads.catalogue()[pair.workload].metrics}
        assert pair.metric is None or pair.metric in metrics, pair
        better, worse = ({s for s in stacks if re.search(like, s)} for like in (pair.better_like, pair.worse_like))
        assert better != worse and (better - worse or better < worse) and (worse - better or worse < better), pair
    rows = [finding for finding in published.findings() if finding.study == name]
    assert len(study.pairs) + len(study.left_out) >= len(rows), "a finding is neither tried nor left out"
