"""The matrix of what was tried, where documents say otherwise, and its renderers."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex

from strata.campaign import parse_stacks
from strata.layers import catalogue
from strata.model import FailedVisit, Metric, Outcome, Rule, Skipped, TrialResult, View, WorkloadView
from strata.probes import probes
from strata.probes._undo import MAKE_NOTES, REMOVE_NOTES, UNDO
from strata.published.documented import documents
from strata.report import features, matrix, pages
from strata.report.matrix import Matrix

EXT4, ZFS, THIN, VDO = "disk | ext4", "disk | zfs", "disk | lvmthin | xfs", "disk | vdo | xfs(mkfs=-K)"


def tried(stack: str, name: str, holds: float | None, outcome: Outcome = Outcome.OK) -> TrialResult:
    metrics = {"probe_s": 1.5} | ({} if holds is None else {"holds": holds})
    if name == "clone":
        metrics["clone_bytes"] = 2.0 * (1 << 20)
    reason = None if outcome is Outcome.OK else "the probe ended badly"
    return TrialResult(hash((stack, name)), stack, 0, 0, f"feature/{name}", outcome, reason, 0.0, 1.0, metrics, {}, (),
                       (f"{name}: what showed it",))  # fmt: skip


PROBED = (
    ("sh", "-c", MAKE_NOTES, "sh", "/mnt", "/notes"),
    ("strata-engine", "sample", "--out", "x", "--", "sh", "-c", "script"),
    ("sh", "-c", UNDO, "sh", "/mnt", "/notes"),
    ("sh", "-c", REMOVE_NOTES, "sh", "/mnt", "/notes"),
)


def found(*trials: TrialResult) -> Matrix:
    holds = Metric("holds", "ratio", "higher")
    loads = tuple(
        WorkloadView(text, text, holds, {"holds": holds}) for text in dict.fromkeys(t.workload for t in trials)
    )
    view = View("f", "", 1, Rule(), (EXT4, ZFS, THIN, VDO), loads, trials, (), (Skipped(VDO, ("no module",)),),
                (FailedVisit(9, THIN, 0, "it broke"),), (), 2, 2, None, {},
                {EXT4: ("mkfs.ext4 /dev/vda", *map(shlex.join, PROBED))}, ())  # fmt: skip
    stacks = {text: parse_stacks(text, catalogue())[0] for text in view.stacks}
    return matrix.build([view], stacks, documents())


def test_yes_no_and_nothing_known_with_what_shows_it() -> None:
    text = features.render(
        found(tried(EXT4, "clone", 0.0), tried(ZFS, "clone", 1.0), tried(EXT4, "checksums", None, Outcome.FAILED))
    )
    rows = [line.split() for line in text.splitlines()]
    assert ["clone", "no", "yes"] in rows
    assert ["checksums", "?", "?"] in rows
    assert "  no  clone      what showed it" in text
    assert "the probe ended badly" in text and "the visit ended before it" in text
    assert "no module" in text and "it broke" in text


def test_what_tables_and_documents_say_otherwise() -> None:
    it = found(tried(THIN, "older-snapshots", 0.0), tried(ZFS, "older-snapshots", 1.0), tried(ZFS, "direct", 1.0))
    by = {(each.stack, each.feature, each.by.split(",")[0]) for each in it.disagreements}
    assert (THIN, "older-snapshots", "Incus 7.3") in by
    assert (ZFS, "older-snapshots", "documents of its layers") in by
    assert not [each for each in it.disagreements if each.feature == "direct"], "of which documents say nothing"
    assert all(each.source and each.why for each in it.disagreements)
    agreed = found(tried(EXT4, "clone", 0.0), tried(ZFS, "clone", 1.0))
    assert not agreed.disagreements and agreed.agreements == 2
    # what Incus does with a plain directory is asked of Incus, and not of the file system
    assert not found(tried(EXT4, "older-snapshots", 0.0)).disagreements


def test_what_a_probe_printed_is_kept_and_a_script_that_is_not_todays_is_told() -> None:
    trial = dataclasses.replace(tried(EXT4, "clone", 0.0), notes=("clone: it was refused", "taken=no said=no"))
    (row, *_) = found(trial).groups[0].rows
    assert (row.cells[0].why, row.cells[0].printed, row.cells[0].earlier) == (
        "it was refused",
        "taken=no said=no",
        True,
    )
    view = ("strata-engine sample --out x -- sh -c " + shlex.quote(probes()["clone"].script) + " sh /mnt",)
    assert matrix._scripts(view) == {probes()["clone"].script}
    page = pages.features(found(trial))
    assert "taken=no said=no" in page and "tried by an earlier script" in page


def test_stacks_that_show_the_same_are_set_against_their_documents_once() -> None:
    it = found(tried(THIN, "older-snapshots", 0.0), tried(ZFS, "older-snapshots", 1.0), tried(THIN, "thin", 0.0))
    (older,) = [each for each in it.disputes if each.seen[0][0] == (THIN,) and each.feature == "older-snapshots"]
    of_it = [each for each in it.disagreements if (each.stack, each.feature) == (THIN, "older-snapshots")]
    assert len(older.documents) == len(of_it) > 1
    documents = [(each.feature, stacks, by) for each in it.disputes for stacks, _ in each.seen for by in each.documents]
    assert len(documents) == len(set(documents))
    said = {(feature, stack, by) for feature, stacks, by in documents for stack in stacks}
    assert said == {(each.feature, each.stack, (each.by, each.says, each.source)) for each in it.disagreements}
    text = features.render(it)
    assert text.count("older-snapshots: no") == 1
    assert text.count("    but ") == len(documents)


def test_a_feature_that_is_not_known_disagrees_with_nobody() -> None:
    it = found(dataclasses.replace(tried(EXT4, "clone", None), metrics={"probe_s": 1.0}))
    assert not it.disagreements and it.agreements == 0


def test_risks_stand_beside_with_their_sources() -> None:
    it = found(tried(EXT4, "clone", 0.0))
    of = {row.stack: row.risks for row in it.groups[0].rows}
    assert not of[EXT4]
    assert any("full" in risk.text and risk.source for risk in of[THIN])


def test_json_has_all_of_it() -> None:
    it = json.loads(features.as_json(found(tried(EXT4, "clone", 0.0), tried(EXT4, "checksums", None))))
    (group,) = it["groups"]
    assert group["title"] == "Directories"
    cells = {cell["feature"]: cell for cell in group["rows"][0]["cells"]}
    assert cells["clone"]["holds"] is False and cells["checksums"]["holds"] is None
    assert cells["clone"]["figures"] == {"clone_bytes": 2 << 20} and cells["clone"]["took_s"] == 1.5
    assert cells["clone"]["texts"] == ["room that it took: 2.00 MiB"]
    assert group["rows"][0]["commands"] == ["mkfs.ext4 /dev/vda"], "and not the probes' scripts, which stand once"
    assert group["rows"][3]["without"] == ["no module"]
    assert it["features"][0]["script"] == probes()[it["features"][0]["name"]].script


def test_the_page_asks_for_nothing_and_leads_where_it_says() -> None:
    page = pages.features(found(tried(EXT4, "clone", 0.0), tried(ZFS, "clone", 1.0)))
    assert "<script" not in page and not re.search(r'(src|href)="(?!#|data:)', page)
    places = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= places
    assert '<td class="no" title="what showed it">no</td>' in page
