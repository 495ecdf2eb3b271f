"""A stored run gives back its campaign file, continues as it was begun, and is exported as CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata import campaign as campaigns
from strata import layers, workloads
from strata.cli import report, show
from strata.cli.run import Asked, continued, stored_run
from strata.cli.written import Where
from strata.errors import BadInput, StrataError
from strata.run.verify import stored_campaign
from strata.store.writer import Store

SOURCE = """\
name: "web"
testbed: "local"
disks: {"disk": {"size": "1G"}}
stacks: ["disk | ext4", "disk | xfs"]
workloads: ["fio/randrw-75-25(runtime=5s)"]
seed: 7
"""


def stored(directory: Path, devices: tuple[str, ...] = ()) -> Path:
    Store.create(
        directory,
        name="web",
        about="",
        source=SOURCE,
        fingerprint="f",
        description={"devices": list(devices)},
        seed=7,
        version="0",
        now=1.0,
    ).close()
    return directory


def asked(directory: Path, **options: object) -> Asked:
    return Asked(**{"what": [str(directory)], "loads": [], "out": None, "where": Where(), **options})  # type: ignore[arg-type]


def test_show_prints_the_campaign_file_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.show("campaign", str(stored(tmp_path / "run")), False)
    text = capsys.readouterr().out
    assert text == SOURCE
    loaded = campaigns.load(text, where="f", layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=str)
    assert loaded == stored_campaign(tmp_path / "run")


def test_show_campaign_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs the directory of a run"):
        show.show("campaign", None, False)
    with pytest.raises(StrataError):
        show.show("campaign", str(tmp_path), False)


def test_only_the_directory_of_a_run_continues_one(tmp_path: Path) -> None:
    run = stored(tmp_path / "run")
    assert stored_run([str(run)]) == run
    for what in ([str(tmp_path)], [str(tmp_path / "none")], ["disk | ext4"], [str(run), "disk | ext4"]):
        assert stored_run(what) is None


def test_a_run_continues_in_its_directory_with_its_devices(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", ("disk=serial:A1",))
    again = continued(asked(run), run)
    assert (again.out, again.device) == (run, ("disk=serial:A1",))
    assert continued(asked(run, device=["disk=serial:B2"]), run).device == ["disk=serial:B2"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"loads": ["null"]}, "--workload"),
        ({"out": Path("other")}, "--out"),
        ({"sizes": ["disk=2G"]}, "--size"),
        ({"profile": "quick"}, "--profile"),
        ({"where": Where(on="lab")}, "testbed"),
    ],
)
def test_what_a_run_holds_already_is_refused(tmp_path: Path, options: dict[str, object], name: str) -> None:
    run = stored(tmp_path / "run")
    with pytest.raises(BadInput, match=name):
        continued(asked(run, **options), run)


def test_a_run_that_others_can_write_to_is_not_continued(tmp_path: Path) -> None:
    run = stored(tmp_path / "run")
    run.chmod(0o777)
    with pytest.raises(StrataError):
        continued(asked(run), run)


def test_a_report_has_one_form() -> None:
    assert report.form(json=False, markdown=False, csv=True) == "csv"
    assert report.form(json=False, markdown=False, csv=False) == "html"
    with pytest.raises(BadInput, match="--json, --csv"):
        report.form(json=True, markdown=False, csv=True)
