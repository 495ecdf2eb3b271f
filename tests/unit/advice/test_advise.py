"""The choice: what fits, what does not and why, what conflicts, and what comes of figures."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Literal

import pytest
from benchmarks.research.noise import Noise

from strata import published, workloads
from strata.advice import requirements
from strata.advice.advise import Advice, Candidate, Tradeoff, advise
from strata.advice.elsewhere import elsewhere
from strata.advice.judge import Answer, Judged, features, judge
from strata.advice.requirements import Requirements, described, with_flags
from strata.advice.tried import Tried, tried
from strata.analysis.estimate import Estimate
from strata.campaign import parse_stacks
from strata.errors import BadInput
from strata.layers import catalogue, drivers, survivable
from strata.model import Facts, Metric, Outcome, Skipped, Stack, TrialResult, View, WorkloadView
from strata.planning import plan
from strata.published.documented import documents
from strata.report import advice as report

from .views import empty

KNOWN = documents()

PROXMOX = """\
# study 4: an SSD cache; deduplication with little memory, on demand is fine; compression
needs: [ssd-cache, dedup|dedup-on-demand, compression]
max-memory: 1G
capacity: 2T
survive: 1-disk
disks: {hdd: 2, ssd: 1}
"""

MIRROR = "(2*hdd | md(raid1)) + ssd | lvmcache"
STACKS = [
    f"{MIRROR}(writeback) | btrfs(compress=zstd)",
    f"{MIRROR}(writethrough) | btrfs(compress=zstd)",
    f"{MIRROR}(writeback) | btrfs",
    f"{MIRROR}(writethrough) | ext4",
    f"{MIRROR}(writethrough) | vdo | xfs",
    "2*hdd + ssd | zfs(mirror=2, l2arc=1, dedup=on)",
    "2*hdd | md(raid1) | btrfs(compress=zstd)",
    "2*hdd | btrfs(raid0, compress=zstd)",
]


def stack(text: str) -> Stack:
    (found,) = parse_stacks(text, catalogue())
    return found


def judged(text: str, **wanted: object) -> Judged:
    return judge(stack(text), Requirements(**wanted), drivers(), KNOWN)  # type: ignore[arg-type]


def read(text: str) -> Requirements:
    return requirements.read(text, "required.yaml", KNOWN.features)


def measured(figures: dict[str, float], rounds: int = 4) -> View:
    """IOPS, exact but for a little noise that is the same for all stacks of a round."""
    iops = Metric("iops", "IOPS", "higher")
    cpu = Metric("host.cpu_per_io_us", "us", "lower")
    workload = WorkloadView("fio/rand", "fio/rand", iops, {"iops": iops})
    machine = Noise(7)
    trials = []
    for number in range(rounds):
        for place, (text, value) in enumerate(figures.items()):
            wobble = math.exp(0.001 * machine.draw(text, 0.1 * number, visit=number))
            trials.append(
                TrialResult(
                    visit=number * 100 + place,
                    stack=text,
                    round=number,
                    order=number * 100 + place,
                    workload=workload.text,
                    outcome=Outcome.OK,
                    reason=None,
                    started_at=0.0,
                    wall_s=1.0,
                    metrics={"iops": value * wobble, cpu.name: 10.0 * wobble * value / 100},
                    series={},
                    flags=(),
                    notes=(),
                )
            )
    return dataclasses.replace(
        empty(), stacks=tuple(figures), workloads=(workload,), trials=tuple(trials), machine_metrics={cpu.name: cpu}
    )


def chosen(wanted: Requirements, figures: dict[str, float], candidates: Sequence[str] = STACKS) -> Advice:
    canonical = {stack(text).text: value for text, value in figures.items()}
    return advise([stack(text) for text in candidates], {"runs/a": measured(canonical)}, wanted, drivers(), KNOWN)


# ---------------------------------------------------------------- one stack


@pytest.mark.parametrize(
    ("text", "disks"),
    [
        ("disk | ext4", 0),
        ("2*disk | md(raid1) | ext4", 1),
        ("3*disk | md(raid1) | ext4", 2),
        ("4*disk | md(raid10) | ext4", 1),
        ("4*disk | md(raid6) | ext4", 2),
        ("2*disk | md(raid0) | ext4", 0),
        ("4*disk | zfs(mirror=2)", 1),
        ("3*disk | zfs(raidz2)", 2),
        ("2*disk | btrfs(raid1)", 1),
        ("2*disk | btrfs", 0),
        ("3*disk | btrfs(raid1c3)", 1),  # two copies of its metadata
        ("3*disk | btrfs(raid1c3, metadata=raid1c3)", 2),
        ("3*disk | lvm(raid5) | xfs", 1),
        ("(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | ext4", 0),
        ("(2*hdd | md(raid1)) + ssd | lvmcache | ext4", 1),  # what is on the cache is below it too
        ("hdd + ssd | lvmcache | ext4", 0),
        ("(2*hdd | md(raid1)) + ssd | bcache | ext4", 1),
        ("(2*hdd | md(raid1)) + ssd | bcache(writeback) | ext4", 0),
        ("(2*hdd | md(raid1)) + (2*ssd | md(raid1)) | lvmcache | ext4", 1),
        ("((2*disk | md(raid1)) + (2*disk | md(raid1))) | md(raid1) | ext4", 3),
        ("4*disk | md(raid10) | lvmthin | xfs | qcow2 | vm | ext4", 1),
    ],
)
def test_how_many_disks_can_be_lost_whichever_they_are(text: str, disks: int) -> None:
    assert survivable(stack(text).top, drivers()) == disks


def test_that_a_disk_can_be_lost_is_in_the_plan() -> None:
    (answer,) = judged("2*disk | md(raid1) | ext4", needs=(("disk-loss",),)).answers
    assert answer.met and answer.basis == "plan" and "any 1 of its disks" in answer.why
    (answer,) = judged("disk | ext4", needs=(("disk-loss",),)).answers
    assert not answer.met and answer.basis == "plan" and "whose loss takes data" in answer.why


def test_silence_is_no_document() -> None:
    (answer,) = judged("disk | ext4", needs=(("direct",),)).answers
    assert not answer.met and answer.basis == "not known"
    assert "nobody tried direct here" in answer.why and "strata features" in answer.why
    # of two that are enough each, one that is known to lack does not rule out the other
    (answer,) = judged("disk | ext4", needs=(("disk-loss", "direct"),)).answers
    assert not answer.met and answer.basis == "not known"


def test_a_feature_that_needs_an_argument_says_which() -> None:
    (answer,) = judged("disk | btrfs", needs=(("compression",),)).answers
    assert not answer.met
    assert "btrfs only with compress (btrfs(5)" in answer.why
    (answer,) = judged("disk | btrfs(compress=lzo)", needs=(("compression",),)).answers
    assert answer.met and answer.basis == "documented"


def test_a_feature_that_an_argument_takes_away() -> None:
    assert judged("disk | btrfs", needs=(("checksums",),)).answers[0].met
    for argument in ("nodatacow", "nodatasum"):
        assert not judged(f"disk | btrfs({argument})", needs=(("checksums",),)).answers[0].met


def test_a_layer_anywhere_in_the_stack_gives_its_feature() -> None:
    assert judged("disk | lvmthin | ext4", needs=(("snapshot",), ("thin",))).unmet == ()
    assert judged("disk | ext4", needs=(("snapshot",),)).unmet[0].why.startswith("no snapshot: ext4 (")


def test_memory_is_counted_from_the_room() -> None:
    wanted = {"max_memory_bytes": 1 << 30}
    little = judged("2*hdd | zfs(mirror=2, arc_max=512M)", **wanted).answers[0]
    assert little.met
    much = judged("2*hdd | zfs(mirror=2, dedup=on)", **wanted, capacity_bytes=2 * 10**12).answers[0]
    assert not much.met and much.basis == "arithmetic" and "study of 2019" in much.why
    unknown = judged("2*hdd | zfs(mirror=2, dedup=on)", **wanted).answers[0]
    assert not unknown.met and "capacity" in unknown.why


def test_an_acknowledged_write_that_can_be_lost() -> None:
    for text in ("hdd + ssd | bcache(writeback) | ext4", f"{MIRROR}(writeback) | ext4", "disk | zfs(sync=disabled)",
                 "disk | xfs | qcow2 | vm(cache=unsafe)", "disk | ext4(nobarrier)", "disk | f2fs(fsync_mode=nobarrier)",
                 "disk | zfs | zvol(sync=disabled) | ext4"):  # fmt: skip
        assert judged(text, no_writeback_risk=True).unmet, text
    for text in ("hdd + ssd | bcache | ext4", f"{MIRROR} | ext4", "disk | zfs"):
        assert not judged(text, no_writeback_risk=True).unmet, text


def test_every_argument_that_takes_a_promise_away_is_a_risk() -> None:
    noted = {(each.layer, name) for each in KNOWN.risks for name, _ in each.terms.when if each.loses}
    risky = {
        (layer, param.name)
        for layer, info in catalogue().items()
        for param in info.params
        if param.name == "nobarrier" or {"unsafe", "disabled", "nobarrier"} & {*param.choices}
    }
    assert risky >= {("ext4", "nobarrier"), ("vm", "cache"), ("qsd", "cache"), ("zfs", "sync"), ("zvol", "sync")}
    assert risky - noted == set()


def test_memory_that_is_not_counted_is_said() -> None:
    wanted = {"max_memory_bytes": 1 << 30}
    (answer,) = judged("disk | zfs", **wanted).answers
    assert not answer.met and answer.basis == "not known" and "set arc_max" in answer.why
    (answer,) = judged("disk | zfs(arc_max=4G)", **wanted).answers
    assert not answer.met and answer.why.startswith("about 4.0 GiB")
    assert "the guests' own memory" in judged("disk | ext4 | qcow2 | vm | ext4", **wanted).answers[0].why


def test_what_was_tried_counts_for_every_requirement() -> None:
    def known(feature: str, holds: bool, **figures: float) -> dict[str, Tried]:
        return {feature: Tried(holds, "what showed (tried in runs/f)", figures)}

    def answer(text: str, seen: dict[str, Tried], **wanted: object) -> Answer:
        return judge(stack(text), Requirements(**wanted), drivers(), KNOWN, seen).answers[0]  # type: ignore[arg-type]

    mirror = "2*disk | md(raid1) | ext4"
    for holds in (True, False):
        lost = answer(mirror, known("disk-loss", holds), survive=1)
        assert (lost.met, lost.basis) == (holds, "tried")
    assert answer("disk | ext4", known("disk-loss", True), survive=1).basis == "plan", "the probe had a disk to spare"
    held = answer("disk | vdo | xfs", known("dedup", True, saver_memory_bytes=4e8), max_memory_bytes=100 << 20)
    assert (held.met, held.basis) == (False, "tried")
    one, other = stack("disk | btrfs"), stack("disk | xfs")
    assert "snapshot" not in features(one, KNOWN, known("snapshot", False))
    assert features(other, KNOWN, known("snapshot", True))["snapshot"] == "tried"


def test_advice_says_which_machine_it_comes_from() -> None:
    nothing: frozenset[str] = frozenset()
    facts = Facts("vm", (6, 12, 0), "6.12.0", "Debian 13", "a processor", 1, 1 << 30, True, nothing, {}, nothing, 0,
                  caveats=("All is emulated.",))  # fmt: skip
    view = dataclasses.replace(measured({"disk | ext4": 2.0, "disk | xfs": 1.0}), facts=facts)
    asked = [stack("disk | ext4"), stack("disk | xfs")]
    said = report.render(advise(asked, {"runs/a": view, "runs/b": view}, Requirements(), drivers(), KNOWN), [])
    assert "runs/a, runs/b: on a processor, kernel" in said and "\n  All is emulated.\n" in said


def test_what_could_be_measured_is_told_with_its_risks() -> None:
    found = advise([stack("hdd + ssd | lvmcache | ext4")], {}, read("needs: [ssd-cache]"), drivers(), KNOWN)
    said = report.render(found, [])
    assert "ssd-cache: ssd-cache: lvmcache" in said and "! lvmcache: hibernating" in said


def test_disks_that_are_not_at_hand() -> None:
    (answer,) = judged("4*hdd | md(raid10) | ext4", disks={"hdd": 2}).unmet
    assert answer.why == "it takes 4 hdd"


def tried_view(text: str, feature: str, holds: float | None) -> View:
    holding = Metric("holds", "ratio", "higher")
    took = Metric("probe_s", "s", "lower")
    workload = WorkloadView(f"feature/{feature}", f"feature/{feature}", took, {"holds": holding, "probe_s": took})
    metrics = {"probe_s": 1.0} if holds is None else {"probe_s": 1.0, "holds": holds}
    trial = TrialResult(1, text, 0, 0, workload.text, Outcome.OK, None, 0.0, 1.0, metrics, {}, (),
                        (f"{feature}: what showed",))  # fmt: skip
    return dataclasses.replace(empty(), stacks=(text,), workloads=(workload,), trials=(trial,))


@pytest.mark.parametrize(
    ("holds", "met", "basis"), [(1.0, True, "tried"), (0.0, False, "tried"), (None, True, "documented")]
)
def test_what_was_tried_counts_before_what_documents_say(holds: float | None, met: bool, basis: str) -> None:
    wanted = Requirements(needs=(("checksums",),))
    found = advise(
        [stack("disk | btrfs")], {"runs/f": tried_view("disk | btrfs", "checksums", holds)}, wanted, drivers(), KNOWN
    )
    each = found.ruled_out or found.unmeasured
    (answer,) = each[0].answers
    assert (answer.met, answer.basis) == (met, basis)
    assert found.choice is None, "how long a probe took is no figure to choose by"
    if basis == "tried":
        assert "what showed (tried in runs/f)" in answer.why


def test_what_the_disks_are_called_changes_nothing_that_was_tried() -> None:
    asked = [stack("2*hdd | btrfs(raid1)"), stack("2*disk | btrfs(raid1)"), stack("2*hdd | btrfs(raid10)")]
    seen = tried({"runs/f": tried_view("2*disk | btrfs(raid1)", "checksums", 1.0)}, asked)
    assert seen["2*hdd | btrfs(raid1)"]["checksums"].why == "what showed (tried on 2*disk | btrfs(raid1), in runs/f)"
    assert seen["2*disk | btrfs(raid1)"]["checksums"].why == "what showed (tried in runs/f)"
    assert not seen["2*hdd | btrfs(raid10)"]
    # the stack itself counts before one like it, whichever run comes first
    later = {"runs/f": tried_view("2*hdd | btrfs(raid1)", "checksums", 0.0)}
    later["runs/g"] = tried_view("2*disk | btrfs(raid1)", "checksums", 1.0)
    assert tried(later, asked)["2*hdd | btrfs(raid1)"]["checksums"].holds is False


def test_of_many_that_are_ruled_out_each_is_named_with_what_it_lacks() -> None:
    texts = [f"disk | ext4(commit={n})" for n in range(1, 8)] + ["disk | xfs"]
    found = advise(
        [stack(t) for t in ("disk | btrfs(compress=zstd)", *texts)],
        {},
        Requirements(needs=(("compression",),)),
        drivers(),
        KNOWN,
    )
    said = report.render(found, [])
    assert all(f"\n    {stack(text).text}\n" in said for text in texts)
    assert said.count("lack compression") == 1 and "--json" in said


def test_weights_of_the_command_line() -> None:
    base = Requirements(weights={"fio": 1.0})
    made = with_flags(base, KNOWN.features, weights="fio/randrw(size=1G, runtime=2s)=2,dd=1")
    assert made.weights == {"fio/randrw(size=1G, runtime=2s)": 2.0, "dd": 1.0}
    assert with_flags(base, KNOWN.features).weights == {"fio": 1.0}
    with pytest.raises(BadInput, match="weights: write names with numbers"):
        with_flags(base, KNOWN.features, weights="fio")


def test_a_layer_that_makes_one_device_gives_none_through_a_file_system() -> None:
    wanted = (("block",),)
    assert judged("2*disk | md(raid1)", needs=wanted).answers[0].met
    assert not judged("2*disk | md(raid1) | xfs", needs=wanted).answers[0].met
    assert judged("2*disk | md(raid1) | lvmthin | xfs", needs=wanted).answers[0].met


# ---------------------------------------------------------------- the choice


def test_the_requirements_of_study_4_find_its_stack() -> None:
    found = chosen(read(PROXMOX.replace("survive: 1-disk\n", "")), {text: 100.0 + n for n, text in enumerate(STACKS)})
    assert found.choice is not None
    # of what is left, the quicker of the two cache modes; VDO is left too, and slower to nobody's surprise here
    left = {found.choice.judged.stack, *(other.judged.stack for other in found.others)}
    assert left == {stack(STACKS[0]).text, stack(STACKS[1]).text, stack(STACKS[4]).text}
    reasons = {each.stack: [answer.requirement for answer in each.unmet] for each in found.ruled_out}
    assert reasons[stack(STACKS[2]).text] == ["compression"]
    assert reasons[stack(STACKS[3]).text] == ["dedup or dedup-on-demand", "compression"]
    assert reasons[stack(STACKS[5]).text] == ["at most 1.0 GiB of memory"]
    text = report.render(found, described(read(PROXMOX)))
    assert "Choose" in text and "strata recipe runs/a" in text and "study of 2019" in text


def test_of_one_cache_device_the_mode_says_whether_its_loss_costs_data() -> None:
    found = chosen(read(PROXMOX), dict.fromkeys(STACKS, 100.0))
    assert found.choice is not None
    left = {found.choice.judged.stack, *(other.judged.stack for other in found.others)}
    assert left == {stack(STACKS[1]).text, stack(STACKS[4]).text}


def test_what_no_candidate_has_together_conflicts() -> None:
    without = [text for text in STACKS if "writethrough" not in text]
    found = chosen(read(PROXMOX), dict.fromkeys(without, 100.0), without)
    assert found.choice is None
    # ZFS survives it with a cache that only reads go through, and takes too much memory to deduplicate.
    assert found.conflicts == (("ssd-cache", "at most 1.0 GiB of memory", "survives the loss of 1 disk"),)
    assert all(len(each.unmet) == 1 for each in found.nearest)
    text = report.render(found, described(read(PROXMOX)))
    assert "No candidate has" in text and "What comes nearest" in text


def test_what_a_run_left_out_is_not_among_what_could_be_measured() -> None:
    candidates = ["disk | ext4(prjquota)", "disk | ext4", "disk | xfs"]
    without = Skipped("disk | ext4(prjquota)", ("The kernel was built without quotas for ext4; boot another.",))
    run = dataclasses.replace(measured({"disk | xfs": 100.0}), skipped=(without,))
    found = advise([stack(text) for text in candidates], {"runs/a": run}, read("needs: [grow]"), drivers(), KNOWN)
    assert found.choice is not None and found.choice.judged.stack == "disk | xfs"
    assert [each.stack for each in found.unmeasured] == ["disk | ext4"]
    assert [each.stack for each in found.ruled_out] == ["disk | ext4(prjquota)"]
    text = report.render(found, [])
    assert "left out of runs/a: The kernel was built without quotas for ext4; boot another. [plan]" in text
    assert "can be built here: runs/a built it [tried]" in text

    # another run that built it knows better
    other = measured({"disk | ext4(prjquota)": 50.0})
    found = advise(
        [stack(text) for text in candidates], {"runs/a": run, "runs/b": other}, Requirements(), drivers(), KNOWN
    )
    assert found.ruled_out == ()


def test_what_no_machine_can_build_comes_with_its_reason() -> None:
    candidates = [stack("disk | ext4 | docker(btrfs)"), stack("disk | btrfs | docker(btrfs)")]
    misplaced = {each.text: reasons for each in candidates if (reasons := plan.misplaced(each, drivers()))}
    assert list(misplaced) == ["disk | ext4 | docker(btrfs)"]
    found = advise(candidates, {}, Requirements(), drivers(), KNOWN, misplaced=misplaced)
    assert [each.stack for each in found.unmeasured] == ["disk | btrfs | docker(btrfs)"]
    assert "needs btrfs below it" in found.ruled_out[0].unmet[0].why


def test_a_conflict_that_more_words_would_end_is_not_called_one() -> None:
    found = advise([stack("disk | vdo | xfs"), stack("disk | ext4")], {}, read("needs: [dedup]\nmax_memory: 1G"),
                   drivers(), KNOWN)  # fmt: skip
    assert found.choice is None and found.nearest[0].stack == "disk | vdo | xfs"
    text = report.render(found, [])
    assert "Of no candidate it is known that it has" in text and "say how large they are (capacity)" in text
    assert "Give up" not in text
    wanted = read("needs: [dedup]\nmax_memory: 1G\ncapacity: 1T")
    assert advise([stack("disk | vdo | xfs")], {}, wanted, drivers(), KNOWN).unmeasured


def test_what_no_probe_asks_an_engine_its_storage_answers() -> None:
    engine, below = stack("disk | ext4(prjquota) | docker"), stack("disk | ext4(prjquota)")
    run = tried_view(below.text, "quota", 1.0)
    found = tried({"runs/f": run}, [below, engine], {engine.text})
    assert found[engine.text]["quota"].holds and "tried on disk | ext4(prjquota)" in found[engine.text]["quota"].why
    assert tried({"runs/f": run}, [below, engine])[engine.text] == {}
    (answer,) = judge(below, Requirements(needs=(("rootless",),)), drivers(), KNOWN).answers
    assert "no probe asks a directory" in answer.why
    (answer,) = judge(engine, Requirements(needs=(("rootless",),)), drivers(), KNOWN).answers
    assert "`strata features` tries" in answer.why


def test_a_disk_is_any_that_is_at_hand() -> None:
    assert not judged("2*disk | md(raid1) | ext4", disks={"hdd": 2}).unmet
    assert judged("2*disk | md(raid1) | ext4", disks={"hdd": 1}).unmet
    assert judged("disk + ssd | lvmcache | ext4", disks={"ssd": 1}).unmet
    assert not judged("disk + ssd | lvmcache | ext4", disks={"ssd": 1, "hdd": 1}).unmet


def test_a_finding_is_of_no_stack_with_a_layer_that_its_study_had_not() -> None:
    texts = ["disk | lvm | xfs", "disk | btrfs", "disk | lvmthin(zero=off) | lxd(lvm)", "disk | vdo | lvmthin | xfs"]
    studies = [published.study(name, catalogue(), workloads.catalogue()) for name in published.names()]
    found = elsewhere([stack(text) for text in texts], texts, studies, drivers())
    named = {text for each in found for order in each.orders for text in (*order.better, *order.worse)}
    assert {"disk | lvm | xfs", "disk | btrfs"} <= named
    assert not [text for text in named if "lxd" in text or "vdo" in text]


def test_the_pair_that_conflicts_is_named() -> None:
    found = advise(
        [stack("disk | btrfs"), stack("disk | lvm | ext4")],
        {},
        read("needs: [block, checksums, grow]"),
        drivers(),
        KNOWN,
    )
    assert found.conflicts == (("block", "checksums"),)
    assert {each.stack for each in found.nearest} == {"disk | btrfs", "disk | lvm | ext4"}


def test_what_nobody_has_is_named_alone() -> None:
    found = advise([stack("disk | ext4")], {}, read("needs: [grow, dedup]"), drivers(), KNOWN)
    assert found.conflicts == (("dedup",),)


def test_giving_up_what_nobody_has_is_not_said_to_be_enough() -> None:
    candidates = [stack("disk | btrfs"), stack("disk | lvm | ext4")]
    wanted = read("needs: [dedup, ssd-cache, block, checksums, grow]")
    found = advise(candidates, {}, wanted, drivers(), KNOWN)
    assert found.conflicts == (("dedup",), ("ssd-cache",), ("block", "checksums"))
    text = report.render(found, [])
    assert "No candidate has 'ssd-cache'." in text and "'block' and 'checksums' together." in text
    assert text.count("Give up") == 1 and "Give up one of each" in text


def test_the_ranking_counts_what_fits_only_and_prices_the_runner_up() -> None:
    figures = {STACKS[0]: 300.0, STACKS[1]: 240.0, STACKS[3]: 900.0}
    found = chosen(Requirements(needs=(("compression",),)), figures)
    assert found.choice is not None and found.choice.judged.stack == stack(STACKS[0]).text
    assert found.run == "runs/a"
    runner_up = found.others[0]
    assert runner_up.judged.stack == stack(STACKS[1]).text
    assert runner_up.ratio is not None and runner_up.ratio.point == pytest.approx(0.8, rel=0.01)
    assert runner_up.shown
    assert [trade.metric for trade in runner_up.worse] == ["iops"]
    assert [trade.metric for trade in runner_up.better] == ["host.cpu_per_io_us"], "less of it is better"
    assert "20 %" in report.render(found, [])
    once = dataclasses.replace(runner_up, shown=False, ratio=dataclasses.replace(runner_up.ratio, low=None, high=None))
    said = report.render(dataclasses.replace(found, others=(once, *found.others[1:])), [])
    assert "by one visit of each, which shows no spread; the data do not show it to be a difference." in said


def with_metrics(view: View, figures: dict[str, dict[str, float]], better: Literal["lower", "higher"]) -> View:
    """`view` with more metrics of its workload: name -> stack -> figure."""
    (load,) = view.workloads
    more = {name: Metric(name, "ms", better) for name in figures}
    trials = (
        dataclasses.replace(
            trial, metrics=dict(trial.metrics) | {name: of[trial.stack] for name, of in figures.items()}
        )
        for trial in view.trials
    )
    loads = (dataclasses.replace(load, metrics={**load.metrics, **more}),)
    return dataclasses.replace(view, workloads=loads, trials=tuple(trials))


def trades(figures: dict[str, tuple[float, float]], better: Literal["lower", "higher"]) -> Candidate:
    """The runner-up, of which figures are given after those of the choice."""
    choice, other = stack(STACKS[0]).text, stack(STACKS[1]).text
    of = {name: {choice: pair[0], other: pair[1]} for name, pair in figures.items()}
    run = with_metrics(measured({choice: 100.0, other: 80.0}), of, better)
    found = advise([stack(choice), stack(other)], {"runs/a": run}, Requirements(), drivers(), KNOWN)
    assert found.choice is not None and found.choice.judged.stack == choice
    assert found.choice.better == found.choice.worse == ()
    return found.others[0]


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_trade_off_is_how_many_times_as_good_the_largest_first(better: Literal["lower", "higher"]) -> None:
    low, high = {"lower": (2.0, 3.0), "higher": (3.0, 2.0)}[better]
    pairs = {"some": (10.0, 10.0 * low / high), "much": (10.0, 10.0 * (low / high) ** 2)}
    better_pairs = {f"good_{name}": pair for name, pair in pairs.items()}
    worse_pairs = {f"bad_{name}": pair[::-1] for name, pair in pairs.items()}
    found = trades(better_pairs | worse_pairs, better)
    assert [(trade.metric, trade.ratio) for trade in found.better] == [
        ("good_much", pytest.approx(2.25)),
        ("good_some", pytest.approx(1.5)),
        ("host.cpu_per_io_us", pytest.approx(1.25, rel=0.01)),
    ]
    assert [(trade.metric, trade.ratio) for trade in found.worse] == [
        ("bad_much", pytest.approx(1 / 2.25)),
        ("bad_some", pytest.approx(1 / 1.5)),
        ("iops", pytest.approx(0.8, rel=0.01)),
    ]


def test_what_differs_by_less_than_the_margin_is_no_trade_off() -> None:
    pairs = {"less": (100.0, 97.5), "more": (100.0, 102.5), "gained": (100.0, 96.0), "lost": (100.0, 104.0)}
    found = trades(pairs | {"nothing": (0.0, 5.0), "was nothing": (5.0, 0.0)}, "lower")
    assert {trade.metric for trade in found.better} == {"gained", "host.cpu_per_io_us"}
    assert {trade.metric for trade in found.worse} == {"lost", "iops"}


def test_only_the_largest_trade_offs_are_shown() -> None:
    found = trades({f"m{number}": (100.0, 100.0 + 10 * number) for number in range(1, 8)}, "lower")
    assert [trade.metric for trade in found.worse] == ["m7", "m6", "m5", "m4"]


def test_stacks_that_the_data_do_not_tell_apart_are_offered_together() -> None:
    found = chosen(Requirements(), {STACKS[0]: 300.0, STACKS[1]: 300.1})
    assert len(found.tied) == 2
    said = report.render(found, [])
    assert "do not distinguish" in said and "Why it fits" not in said, "nothing was required"


def test_without_figures_nothing_is_said_of_speed() -> None:
    found = advise([stack("disk | btrfs"), stack("disk | ext4")], {}, read("needs: [snapshot]"), drivers(), KNOWN)
    assert found.choice is None and [each.stack for each in found.unmeasured] == ["disk | btrfs"]
    assert "none is ranked by speed" in report.render(found, [])


# ---------------------------------------------------------------- what studies found

STUDIES = [published.study(name, catalogue(), workloads.catalogue()) for name in published.names()]


def told(texts: Sequence[str], runs: dict[str, View] | None = None) -> Advice:
    return advise([stack(text) for text in texts], runs or {}, Requirements(), drivers(), KNOWN, STUDIES)


def test_a_study_tells_of_stacks_that_nobody_measured_here() -> None:
    found = told(["ssd | xfs(noatime)", "ssd | btrfs", "ssd | f2fs"])
    (study,) = [each for each in found.published if each.ratios]
    assert study.year == 2016
    ratios = {ratio.workload: ratio for ratio in study.ratios}
    # 156,416 and 116,566 ms, 92 and 94 MB/s, both on the root
    assert ratios["fio/randrw-75-25"].ratio == pytest.approx(156416 / 116566)
    assert ratios["dd/seqwrite-sync"].ratio == pytest.approx(94 / 92)
    assert (ratios["fio/randrw-75-25"].stack, ratios["fio/randrw-75-25"].other) == ("ssd | btrfs", "ssd | xfs(noatime)")
    assert ratios["fio/randrw-75-25"].built == (
        "root | btrfs(noatime, ssd, nobarrier)",
        "root | xfs(noatime, nobarrier)",
    )
    said = report.render(found, [])
    assert "1.34  ssd | btrfs" in said and "not measured here: Which LXD storage backend? (2016)" in said
    assert json.loads(json.dumps(dataclasses.asdict(found)))["published"]


def test_what_the_study_had_put_on_both_is_no_difference_and_of_two_kinds_there_is_none() -> None:
    cached = "(2*hdd | md(raid1)) + ssd | lvmcache"
    found = told(
        [
            f"{cached}(writethrough) | btrfs",
            f"{cached}(writeback) | btrfs",
            "(2*hdd | md(raid1)) + ssd | lvmcache(writeback) | ext4",
        ]
    )
    (study,) = [each for each in found.published if each.ratios]
    for ratio in study.ratios:
        above, of_other = (built.partition("| btrfs")[2] for built in ratio.built)
        assert above == of_other
        assert "lvmcache(writeback)" in ratio.built[0] and "lvmcache(writethrough)" in ratio.built[1]
    assert not [each for each in told([f"{cached} | ext4", f"{cached} | xfs"]).published if each.ratios]


def test_a_finding_without_figures_is_told_of_all_that_it_is_about() -> None:
    found = told(
        [
            "4*hdd | zfs(mirror=2)",
            "4*hdd | md(raid10) | lvm | xfs",
            "4*hdd | btrfs(raid10)",
            "4*hdd | md(raid10) | f2fs",
        ]
    )
    # f2fs is another than btrfs too, but the study had none
    orders = [order for study in found.published for order in study.orders if order.workload == "filebench/varmail"]
    assert [(order.better, order.worse, order.by) for order in orders] == [
        (("4*hdd | zfs(mirror=2)", "4*hdd | md(raid10) | lvm | xfs"), ("4*hdd | btrfs(raid10)",), "20")
    ]
    assert "filebench/varmail: all others before btrfs (20 times), that is" in report.render(found, [])


def test_studies_decide_nothing_and_are_silent_of_what_was_measured_here() -> None:
    both = {"disk | xfs(noatime)": 200.0, "disk | btrfs": 100.0}
    found = told(list(both), {"runs/a": measured(both)})
    assert found.choice is not None and found.choice.judged.stack == "disk | xfs(noatime)"
    assert found.published == ()
    beside = told([*both, "disk | ext4"], {"runs/a": measured(both)})
    assert beside.choice == found.choice
    assert {ratio.stack for study in beside.published for ratio in study.ratios} == {"disk | ext4"}


def test_it_is_data_for_programs() -> None:
    found = chosen(read(PROXMOX), dict.fromkeys(STACKS, 100.0))
    assert json.loads(json.dumps(dataclasses.asdict(found)))["ruled_out"]


def test_nothing_to_choose_from() -> None:
    with pytest.raises(BadInput, match="--from"):
        advise([], {}, Requirements(), drivers(), KNOWN)


def test_weights_of_a_workload_that_is_not_there() -> None:
    with pytest.raises(BadInput, match="weights: 'mail' is no workload"):
        chosen(read("weights: {mail: 2}"), {STACKS[0]: 1.0})


def test_weights_say_what_counts_and_what_does_not() -> None:
    run = measured({stack(text).text: 100.0 + number for number, text in enumerate(STACKS[:2])})
    other = dataclasses.replace(run.workloads[0], text="fio/other", name="fio/other")
    more = tuple(dataclasses.replace(trial, workload="fio/other", visit=trial.visit) for trial in run.trials)
    both = dataclasses.replace(run, workloads=(*run.workloads, other), trials=(*run.trials, *more))
    found = advise([stack(text) for text in STACKS[:2]], {"runs/a": both}, read("weights: {rand: 2}"), drivers(), KNOWN)
    assert found.sentences[-1] == "In the score fio/rand weighs 2; fio/other weighs nothing."
    assert not any("In the score" in sentence for sentence in chosen(Requirements(), {STACKS[0]: 1.0}).sentences)


def test_figures_of_one_visit_are_told_and_marked() -> None:
    """As on the virtual clock with one seed, where there are no intervals."""
    figures = {stack(STACKS[0]).text: 300.0, stack(STACKS[1]).text: 150.0}
    run = measured(figures, rounds=1)
    found = advise([stack(text) for text in STACKS[:2]], {"runs/a": run}, Requirements(), drivers(), KNOWN)
    (trade,) = [trade for trade in found.others[0].worse if trade.metric == "iops"]
    assert trade.ratio == pytest.approx(0.5, rel=0.01) and trade.figure.low is None
    assert ", one visit)" in report.render(found, [])
    often = advise(
        [stack(text) for text in STACKS[:2]], {"runs/a": measured(figures)}, Requirements(), drivers(), KNOWN
    )
    assert ", one visit)" not in report.render(often, []) and often.others[0].worse


# ---------------------------------------------------------------- what documents say


def test_every_claim_is_of_a_layer_an_argument_and_a_feature_that_there_are() -> None:
    layers = catalogue()
    for each in (*KNOWN.claims, *KNOWN.risks, *KNOWN.memory, *KNOWN.flushes):
        params = {param.name: param for param in layers[each.layer].params}
        for name, wanted in (*each.terms.when, *each.terms.unless):
            assert name in params, (each.layer, name)
            if wanted != "set" and params[name].choices:
                assert set(wanted) <= set(params[name].choices), (each.layer, name)
        assert each.source
    assert {claim.feature for claim in KNOWN.claims} <= set(KNOWN.features)


def test_a_trade_names_both_figures_and_which_way_it_goes() -> None:
    figure, of_choice = Estimate(12.5, 12.0, 13.0, 3, ""), Estimate(1.47, 1.4, 1.5, 3, "")
    trade = Tradeoff("fio/randread", "lat_ms", 0.117, figure, of_choice)
    assert report._trade(trade) == "lat_ms under fio/randread is worse: 12.5, of the choice 1.47 (ratio 8.55)"
    better = dataclasses.replace(trade, ratio=2.0, figure=of_choice, of_choice=figure)
    assert "is better: 1.47, of the choice 12.5 (ratio 2.00)" in report._trade(better)


def test_a_score_is_named_as_a_score() -> None:
    assert report._score(Estimate(0.5, 0.4, 0.6, 3, "")) == "scores 0.500 times what the choice does (0.400 to 0.600)"
    assert report._score(None) == "how its score compares is not known"


def test_the_headline_is_the_best_stack_that_meets_the_requirements() -> None:
    judged = Judged("disk | zfs", (), ())
    best = Candidate(judged, None, True, (), (), {})
    found = Advice("run", best, (), ("disk | zfs",), (), (), (), (), (), {})
    assert report.headline(found) == "Best of the stacks that meet all requirements: disk | zfs."
    tied = dataclasses.replace(found, tied=("disk | zfs", "disk | btrfs"))
    assert report.headline(tied).endswith("disk | zfs leads; the data do not show it to beat disk | btrfs.")
    assert report.headline(dataclasses.replace(found, choice=None)) == "No stack meets all requirements."
    unmeasured = dataclasses.replace(found, choice=None, unmeasured=(judged,))
    assert report.headline(unmeasured) == "No measured stack meets all requirements."
