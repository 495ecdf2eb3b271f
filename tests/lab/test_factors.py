"""Kernels and releases as factors: each stack is carried by the machine that it names."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from strata.lab import cache as caches
from strata.lab import image
from strata.lab.spec import LabSpec
from strata.model import Outcome

from .lab_runs import STRATA, lab_run

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(3600)]

LOAD = "fio/randrw-75-25(size=32M, iodepth=4, runtime=1s)"


def build(*options: str) -> None:
    subprocess.run([STRATA, "lab", "build", *options], check=True)


def test_a_kernel_is_a_factor_and_a_layer_that_it_lacks_is_skipped(tmp_path: Path) -> None:
    build("--kernel", "6.12")
    build("--kernel", "6.1")
    view = lab_run(tmp_path / "run", ["disk | kernel({6.1, 6.12}) | {xfs, vdo}"], LOAD, "--size", "disk=6G")
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 3, [trial.reason for trial in view.trials]
    (skipped,) = view.skipped
    assert skipped.stack == "disk | kernel(6.1) | vdo"
    assert "6.9" in skipped.reasons[0] and "6.1" in skipped.reasons[0]


def test_only_the_kernel_differs_between_two_kernels_of_a_release() -> None:
    build()
    build("--kernel", "6.1")
    one, other = (image.find(LabSpec(13, kernel), caches.default()) for kernel in ("6.1", None))
    theirs, ours = ({name: v for name, v in lab.packages.items() if "linux" not in name} for lab in (one, other))
    assert len(ours) > 50
    assert json.dumps(theirs, sort_keys=True) == json.dumps(ours, sort_keys=True)


def test_a_release_is_a_factor(tmp_path: Path) -> None:
    build()
    build("--debian", "12")
    view = lab_run(tmp_path / "run", ["disk | debian({12, 13}) | ext4"], LOAD)
    assert [trial.outcome for trial in view.trials] == [Outcome.OK] * 2, [trial.reason for trial in view.trials]
    assert {trial.stack for trial in view.trials} == {"disk | debian(12) | ext4", "disk | debian(13) | ext4"}
