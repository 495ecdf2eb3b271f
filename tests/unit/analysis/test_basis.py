"""A verdict never rests on flagged trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strata.analysis.modelled import ranking
from strata.model import Facts, Testbed, TrialResult, View

from .noisy_views import IOPS, TIME, trial, view


def _trials(figures: Mapping[str, Sequence[tuple[float, float]]], flags: tuple[str, ...] = ()) -> list[TrialResult]:
    """`figures`: stack -> (IOPS, run time) of each round; `flags`: of every trial that has the run time."""
    return [
        each
        for stack, rounds in figures.items()
        for place, (iops, time_s) in enumerate(rounds)
        for each in (
            trial(stack, place, {"iops": iops}),
            trial(stack, place, {"run_time": time_s}, workload=TIME.text, flags=flags),
        )
    ]


def _run(flags: tuple[str, ...] = ()) -> View:
    """Both tie under the first workload; `a` wins the second by far."""
    sway = (100.0, 101.0, 99.0, 100.0)
    figures = {"a": [(each, 1.0) for each in sway], "b": [(each, 2.0) for each in sway]}
    return view(["a", "b"], _trials(figures, flags), workloads=(IOPS, TIME))


def test_a_winner_by_flagged_trials_alone_is_no_verdict() -> None:
    assert ranking(_run()).best == "a"
    seen = ranking(_run(("cache",)))
    assert seen.best is None and seen.undecided
    assert seen.sentences[0] == "Not settled: a has the best score, but flagged trials decide that."
    assert seen.sentences[1].startswith("8 of 16 trials (cache) are flagged. Without them: a and b tie")


def test_a_verdict_that_stands_without_flagged_trials_says_so() -> None:
    few = _run()
    doubted = replace(few, trials=(replace(few.trials[1], flags=("unsteady",)), *few.trials[:1], *few.trials[2:]))
    seen = ranking(doubted)
    assert seen.best == "a"
    assert seen.sentences[1] == "1 of 16 trials (unsteady) are flagged; without them the verdict is the same."


def test_nothing_is_settled_where_every_trial_is_flagged() -> None:
    run = _run()
    seen = ranking(replace(run, trials=tuple(replace(each, flags=("cache",)) for each in run.trials)))
    assert seen.best is None
    assert "Nothing is left without them" in seen.sentences[1]


def test_a_mark_that_speaks_of_risk_and_not_of_the_figure_takes_nothing_away() -> None:
    assert ranking(_run(("unsafe",))).best == "a"


def test_an_emulated_machine_ranks_nothing_by_speed() -> None:
    facts = Facts(
        hostname="lab",
        kernel=(6, 12, 0),
        kernel_text="6.12",
        os="Debian",
        cpu_model="QEMU",
        cpus=1,
        memory_bytes=1 << 30,
        root=True,
        filesystems=frozenset(),
        tools={},
        schedulers=frozenset(),
        free_bytes=1 << 30,
        emulated=True,
    )
    emulated = replace(_run(), facts=facts, testbed=Testbed("lab"))
    seen = ranking(emulated)
    assert seen.best is None and seen.leader is None and not seen.tied
    assert seen.sentences[0].startswith("No ranking: figures of an emulated machine")
    exact = replace(emulated, testbed=Testbed("lab", clock="virtual"))
    assert ranking(exact).best == "a"  # counted instructions are no speed of the machine that emulates
