"""The flags of trials and the kinds of warnings: one table for verdict, report and documents. Plain data.

A run that was stored by an earlier version may hold `cached` and `memory`, which `cache` replaced.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialFlag:
    name: str
    severity: int  # 5: the gravest
    sentence: str  # what the flag says of the trial
    advice: str  # what to do
    distrusted: bool = False  # the figure is of something else than the stack at work: it settles no verdict


@dataclass(frozen=True, slots=True)
class WarningKind:
    name: str
    severity: int  # 5: the gravest
    when: str  # when a run gets it


FLAGS = (
    TrialFlag(
        "unsafe",
        5,
        "Documents say that the stack can lose writes that it has acknowledged, by a power cut or one failed device; "
        "the notes of the trial say how.",
        "Use these figures to see what safety costs, and choose another stack for data that matter.",
    ),
    TrialFlag(
        "limit",
        4,
        "More passed than the limit of the stack allows, so the figure is of a faster stack; the notes of the trial "
        "say how much.",
        "Version 1 of cgroups does not limit data that the page cache writes later: let QEMU hold the limit (vm, "
        "qsd), boot with version 2, or use direct I/O.",
        distrusted=True,
    ),
    TrialFlag(
        "cache",
        4,
        "A cache in memory decided the figure, or nothing shows that it did not; the notes of the trial say how many "
        "bytes reached the disks.",
        "Use a larger data set, or less memory.",
        distrusted=True,
    ),
    TrialFlag(
        "memory",
        4,
        "Almost no bytes reached the disks: this is the speed of memory, not of the stack.",
        "Use a larger data set.",
        distrusted=True,
    ),
    TrialFlag(
        "cached",
        4,
        "The data set fits in memory, or memory could not be cleared before: the figure is of the cache in part.",
        "Use a data set of twice the memory.",
        distrusted=True,
    ),
    TrialFlag(
        "unsteady",
        3,
        "The figure still rose, fell or swung at the end of the trial, so it depends on when the trial was stopped.",
        "Let the workload run longer.",
        distrusted=True,
    ),
    TrialFlag(
        "extended",
        1,
        "The figure had not settled in the usual time, so the trial was run again, twice as long.",
        "Nothing: the second run counts.",
    ),
)

_CARRIED = "trials carry that flag"
# The gravest first, and of equal ones in the order in which a run shows them.
WARNINGS = (
    WarningKind("failed", 5, "visits or trials have no figure"),
    WarningKind("invalid", 5, "an instrument check rejected the figure of a trial"),
    WarningKind("halted", 5, "a stack that was measured cannot be built here any more"),
    WarningKind("unsafe", 5, _CARRIED),
    WarningKind(
        "predicted",
        5,
        "a stack that may be among the best was never built, or failed in every visit; its figures are predicted "
        "(`adaptive`)",
    ),
    WarningKind("limit", 4, _CARRIED),
    WarningKind("cache", 4, _CARRIED),
    WarningKind("memory", 4, _CARRIED),
    WarningKind("cached", 4, _CARRIED),
    WarningKind("caching", 4, "a claimed loop device was attached without direct I/O"),
    WarningKind(
        "rebuilt", 4, "a stack was to be measured while it rebuilds, and the rebuild was over before the trial"
    ),
    WarningKind(
        "unexplained",
        4,
        "the factors explain the stacks badly; a stack that was never built may be far from its prediction "
        "(`adaptive`)",
    ),
    WarningKind("unsteady", 3, _CARRIED + ", or preconditioning ended before the disk was in a steady state"),
    WarningKind(
        "drift",
        3,
        "the results of all stacks change over the run by more than 2 %, or rounds differ by more than 5 %, and "
        "chance does not explain it",
    ),
    WarningKind("bimodal", 3, "the visits of a stack (8 or more) fall into two groups"),
    WarningKind(
        "outlier",
        3,
        "a visit lies far from the stack's others (5 visits or more): modified z score over 3.5 and over 5 % away",
    ),
    WarningKind("spread", 3, "the visits of a stack vary by more than 10 %"),
    WarningKind(
        "noise",
        3,
        "visits vary so much that telling two stacks apart by the margin would take very many visits of each "
        "(`adaptive`)",
    ),
    WarningKind(
        "pressure",
        3,
        "tasks waited for a processor more than 10 % of the time: the processor may be what was measured",
    ),
    WarningKind(
        "unlike",
        3,
        "container engines that are compared do not do the same work (`container/build`, `container/lifecycle`); the "
        "warning says what each does",
    ),
    WarningKind("few", 2, "fewer than 3 visits have figures"),
    WarningKind(
        "peeked",
        2,
        "the number of rounds was fixed when there were figures already: rounds were added, or removed before they "
        "were made, or requested after a race or `adaptive`",
    ),
    WarningKind(
        "changed",
        2,
        "the machine, its kernel or its memory changed between visits; another version of a program that the stacks "
        "or workloads call is refused",
    ),
)
