"""Every workload: what is declared, and the exact commands, against golden/ (STRATA_REFRESH_GOLDEN=1 writes it)."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from strata.campaign.source import did_you_mean
from strata.errors import BadInput, Refused, WorkloadFailed
from strata.model import BOOT_TIME, Call, Kind, ParamType, Target, TrialOutput, TrialPlan, Workload
from strata.workloads import catalogue, find, workloads

from .workload_calls import FACTS, call

GOLDEN = Path(__file__).parent / "golden"
DIRECTORY = Target(Kind.DIRECTORY, "/target", None)
DEVICE = Target(Kind.BLOCK, "/dev/disk/by-id/target", None)
ENGINE = Target(Kind.ENGINE, "/place/client", None)
GUEST = Target(Kind.GUEST, "\\\\.\\PhysicalDrive1", None)
JOB = "[global]\nbs=4k\n[reader]\nrw=randread\nsize=8M\n"
SCRIPT = "#!/bin/sh\ntrue\n"
VAGRANTFILE = 'Vagrant.configure("2") { |config| config.vm.box = "debian/trixie64" }\n'
PROGRAM = "define process name=p { thread name=t { flowop delay name=d,value=1 } }\nrun 5\n"


def example(name: str, variant: str | None = None) -> Call:
    content = {"fio:": JOB, "command:": SCRIPT, "wml:": PROGRAM, "vagrant:": VAGRANTFILE}.get(name)
    return call(name, variant=variant, content=content)


def as_text(plan: TrialPlan) -> str:
    lines = [f"put {path}\n{content}" for path, content in plan.put.items()]
    lines += [f"prepare ({c.timeout_s:g} s)\n{_typed(c.argv)}" for c in plan.prepare]
    lines.append(f"measure ({plan.measure.timeout_s:g} s)\n{_typed(plan.measure.argv)}")
    lines += [f"collect {name}: {path}" for name, path in plan.collect.items()]
    lines.append(f"expect_s: {plan.expect_s}  buffered: {plan.buffered}")
    return "\n".join(lines) + "\n"


def _typed(argv: tuple[str, ...]) -> str:
    return " \\\n  ".join(shlex.quote(part) for part in argv)


def golden_cases() -> list[tuple[str, Call, Target]]:
    cases = []
    for name, workload in workloads().items():
        for variant in (None, *workload.info.variants):
            for target in (DIRECTORY, DEVICE, ENGINE, GUEST):
                if target.kind not in workload.info.accepts or (target is DEVICE and name.startswith("cdm")):
                    continue
                file = name.replace("/", "-").replace(":", "-PATH") + (f"@{variant}" if variant else "")
                if target is ENGINE and len(workload.info.accepts) > 1:
                    continue  # nothing of its own
                file += ".device" if target is DEVICE else ""
                cases.append((file, example(name, variant), target))
    return cases


CASES = golden_cases()


@pytest.mark.parametrize(("file", "spec", "target"), CASES, ids=[case[0] for case in CASES])
def test_the_commands_are_the_golden_ones(file: str, spec: Call, target: Target) -> None:
    text = as_text(find(spec).plan(spec, target, "/scratch", 7))
    path = GOLDEN / f"{file}.txt"
    if os.environ.get("STRATA_REFRESH_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {case[0] for case in CASES}


ALL = pytest.mark.parametrize("workload", workloads().values(), ids=str(list(workloads())).strip("[]").split(", "))


@ALL
def test_what_is_declared_is_consistent(workload: Workload) -> None:
    info = workload.info
    names = [metric.name for metric in info.metrics]
    assert len(names) == len(set(names))
    assert info.primary in names
    assert info.accepts and Kind.GRANT not in info.accepts
    assert info.about.endswith(".")
    for param in info.params:
        if param.type is ParamType.CHOICE:
            assert param.default in param.choices
    spec = example(info.name)
    assert workload.primary_of(spec).name == info.primary
    assert workload.reasons_not_to_run(spec, FACTS) == []


@ALL
def test_the_study_is_decided_by_the_figure_that_it_printed(workload: Workload) -> None:
    """fio's run time, and dd's own line, which leaves the last sync out."""
    printed = {"fio/randrw-75-25": "runtime_s", "dd/seqwrite-sync": "dd_throughput"}
    for variant in workload.info.variants:
        metric = workload.primary_of(example(workload.info.name, variant))
        assert metric.name == printed[workload.info.name]
        assert metric in workload.info.metrics


ON_DIRECTORIES = [workload for workload in workloads().values() if Kind.DIRECTORY in workload.info.accepts]


@pytest.mark.parametrize("workload", ON_DIRECTORIES, ids=lambda workload: workload.info.name)
def test_nothing_is_planned_outside_target_and_scratch(workload: Workload) -> None:
    """No option names another absolute path: what a workload can touch is its target and its scratch."""
    plan = workload.plan(example(workload.info.name), DIRECTORY, "/scratch", 7)
    argvs = [*(c.argv for c in plan.prepare), plan.measure.argv]
    named = [part.rpartition("=")[2] for argv in argvs for part in argv if part.rpartition("=")[2].startswith("/")]
    paths = [*named, *plan.put, *plan.collect.values()]
    assert bool(paths) is (workload.info.name != "null")
    # of the boot time it is only read
    assert [path for path in paths if not path.startswith(("/target", "/scratch", BOOT_TIME))] == []


def test_the_registry_finds_the_published_and_the_usual() -> None:
    names = set(workloads())
    assert names >= {"fio/randrw-75-25", "fio/randread-4k-qd32", "fio/randwrite-4k-qd32", "dd/seqwrite-sync", "null"}
    assert names >= {"fio:", "command:"}
    for version, patterns in (
        ("cdm6", ("seq-q32t1", "4k-q8t8", "4k-q32t1", "4k-q1t1")),
        ("cdm8", ("seq1m-q8t1", "seq1m-q1t1", "seq128k-q32t1", "rnd4k-q32t16", "rnd4k-q32t1", "rnd4k-q1t1")),
    ):
        assert names >= {f"{version}/{pattern}-{way}" for pattern in patterns for way in ("read", "write")}
    assert set(catalogue()) == names


def test_the_patterns_that_were_called_cdm5_are_named_where_somebody_writes_that() -> None:
    renamed = [name for name in catalogue() if name.startswith("cdm6/")]
    assert len(renamed) == 8
    for name in renamed:
        assert did_you_mean(name.replace("cdm6", "cdm5"), catalogue()) == f" (did you mean '{name}'?)"


def test_an_unknown_workload_names_the_known() -> None:
    with pytest.raises(BadInput, match=r"fio/randrw-75-25"):
        find(Call("fio/nonsense", "fio/nonsense", {}))


@pytest.mark.parametrize("name", ["fio/randrw-75-25", "fio:"])
def test_no_fio_and_an_old_fio_are_reasons(name: str) -> None:
    workload = workloads()[name]
    assert "apt-get install fio" in workload.reasons_not_to_run(example(name), replace(FACTS, tools={}))[0]
    for version, fine in (("fio-3.15", False), ("fio-2.21", False), ("fio-3.16", True), ("fio-3.40-12-gabc", True)):
        reasons = workload.reasons_not_to_run(example(name), replace(FACTS, tools={"fio": version}))
        assert (reasons == []) is fine, version


def test_a_longer_second_run_keeps_the_data_and_does_not_append_to_the_first_logs() -> None:
    first = call("fio/randread-4k-qd32")
    longer = replace(first, values={**first.values, "runtime": 60.0})
    one, two = (find(first).plan(spec, DIRECTORY, "/scratch", 7) for spec in (first, longer))
    assert one.prepare == two.prepare
    assert "--filename=/target/strata.data" in two.measure.argv
    assert set(one.collect.values()) & set(two.collect.values()) == {"/scratch/fio.json"}
    assert (one.expect_s, two.expect_s) == (30.0, 60.0)


def commands_of(name: str, target: Target, scratch: str, variant: str | None = None) -> list[str]:
    plan = find(example(name)).plan(example(name, variant), target, scratch, 7)
    return [part for command in (*plan.prepare, plan.measure) for part in command.argv]


@pytest.mark.parametrize("variant", [None, "study"])
def test_a_path_that_fio_would_split_or_cut_is_written_so_that_it_does_not(variant: str | None) -> None:
    name = "fio/randrw-75-25"
    split = commands_of(name, Target(Kind.DIRECTORY, "/a/10:30", None), "/s", variant)
    assert split.count("--filename=/a/10\\:30/strata.data") == 2
    device = commands_of(name, Target(Kind.BLOCK, "/dev/disk/by-path/pci-0:1", None), "/s", variant)
    assert device.count("--filename=/dev/disk/by-path/pci-0\\:1") == 2
    for cut in ("/a/d#1", "/a/d;1", "/a:b/d#1"):
        parts = commands_of(name, Target(Kind.DIRECTORY, cut, None), "/s", variant)
        assert parts.count("--filename=./strata.data") == parts.count(cut) == parts.count("sh") / 2 == 2
    for name_of_its_own in ("/dev/a#1", "/dev/a;1", "/dev/a "):
        with pytest.raises(Refused, match="by another name"):
            commands_of(name, Target(Kind.BLOCK, name_of_its_own, None), "/s", variant)


@pytest.mark.parametrize("kind", [Kind.BLOCK, Kind.DIRECTORY])
def test_no_path_of_a_user_stands_in_a_job_file(kind: Kind) -> None:
    spec = example("fio:")
    plan = find(spec).plan(spec, Target(kind, "/a:b/$ncpus#1/target-of-mine", None), "/a:b/$ncpus#1/scratch", 7)
    assert not [line for text in plan.put.values() for line in text.splitlines() if "ncpus" in line]
    assert plan.prepare[0].argv[-2:] == ("/a:b/$ncpus#1/target-of-mine", "/a:b/$ncpus#1/scratch/target")


def test_every_param_of_a_preset_reaches_fio() -> None:
    spec = call(
        "fio/randwrite-4k-qd32",
        runtime=1.5,
        size=2 << 20,
        bs=8192,
        iodepth=3,
        numjobs=5,
        ioengine="io_uring",
        direct=False,
        compressible=0.25,
    )
    plan = find(spec).plan(spec, DIRECTORY, "/scratch", 7)
    assert set(plan.measure.argv) >= {
        *("--runtime=1500ms", "--size=2M", "--bs=8K", "--iodepth=3", "--numjobs=5", "--ioengine=io_uring"),
        *("--direct=0", "--buffer_compress_percentage=25"),
    }
    assert {"--size=2M", "--buffer_compress_percentage=25"} <= set(plan.prepare[0].argv)
    assert plan.buffered
    assert find(spec).data_bytes(spec) == 2 << 20
    assert find(spec).checks(spec)[0].argv == ("fio", "--enghelp=io_uring")


def test_seeds_differ_and_stay_within_what_fio_reads() -> None:
    spec = call("fio/randread-4k-qd32")
    options = {
        part
        for seed in (1, 2, 2**70 + 3)
        for part in find(spec).plan(spec, DIRECTORY, "/scratch", seed).measure.argv
        if part.startswith("--randseed=")
    }
    assert options == {"--randseed=1", "--randseed=2", "--randseed=3"}


def test_a_study_with_a_run_time_is_refused() -> None:
    spec = call("fio/randrw-75-25", variant="study", runtime=10.0)
    assert "leave out runtime" in find(spec).reasons_not_to_run(spec, FACTS)[0]


def test_time_based_means_a_run_time_that_can_be_doubled() -> None:
    runtimes = {
        name: param.type
        for name, workload in workloads().items()
        for param in workload.info.params
        if param.name == "runtime"
    }
    assert set(runtimes.values()) == {ParamType.TIME}
    timed = {"fio/", "fio:", "cdm6/", "cdm8/", "filebench/", "wml:", "postgres/oltp-complex", "guest/fio"}
    assert {kind for kind in timed if not any(name.startswith(kind) for name in runtimes)} == set()


def test_null_reports_its_own_time_and_a_machine_that_cannot_even_do_that() -> None:
    null = workloads()["null"]
    assert null.read(call("null"), TrialOutput(0, 0.25, "", "", {})).metrics == {"duration_s": 0.25}
    with pytest.raises(WorkloadFailed):
        null.read(call("null"), TrialOutput(127, 0.25, "", "", {}))


DD = "1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.5 s, 2.1 GB/s\n"


def test_dd_is_judged_with_its_sync() -> None:
    spec = call("dd/seqwrite-sync")
    measured = find(spec).read(spec, TrialOutput(0, 4.0, "", DD, {}))
    assert measured.metrics == {"throughput": 256.0, "dd_throughput": 2048.0, "duration_s": 4.0}
    assert measured.bytes_written == 1 << 30


def test_dd_without_a_readable_summary_has_no_figure_of_its_own() -> None:
    spec = call("dd/seqwrite-sync")
    measured = find(spec).read(spec, TrialOutput(0, 4.0, "", "who knows\n", {}))
    assert "dd_throughput" not in measured.metrics
    assert measured.notes
    study = call("dd/seqwrite-sync", variant="study")
    with pytest.raises(WorkloadFailed, match="@study decides by dd's own figure"):
        find(study).read(study, TrialOutput(0, 4.0, "", "who knows\n", {}))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (TrialOutput(1, 1.0, "", "dd: error writing '/t': No space left on device\n" + DD, {}), "No space left"),
        (TrialOutput(0, 1.0, "", DD.replace("1073741824", "4096"), {}), "4096 bytes instead of 1073741824"),
        (TrialOutput(0, 0.0, "", DD, {}), "clock"),
    ],
)
def test_dd_failures(output: TrialOutput, words: str) -> None:
    spec = call("dd/seqwrite-sync")
    with pytest.raises(WorkloadFailed, match=words):
        find(spec).read(spec, output)


def test_dd_wants_whole_mebibytes() -> None:
    spec = call("dd/seqwrite-sync", size=(1 << 20) + 1)
    assert "whole MiB" in find(spec).reasons_not_to_run(spec, FACTS)[0]


def test_an_installation_is_its_run_time_or_what_went_wrong() -> None:
    install = find(call("guest/install"))
    output = TrialOutput(0, 12.5, "", "", {})
    assert install.read(call("guest/install"), output).metrics == {"install_s": 12.5}
    with pytest.raises(WorkloadFailed, match="exit code 1: I: unpacks; E: no room"):
        install.read(call("guest/install"), replace(output, exit_code=1, stderr="I: unpacks\nE: no room\n"))


@pytest.mark.parametrize(
    ("packages", "asked"),
    [
        ("extract", "--variant=extract --include=apt,?essential"),
        ("minimal", "--variant=minbase"),
        ("standard", "--variant=important --include=linux-image-amd64"),
    ],
)
def test_an_installation_is_one_of_mmdebstrap_s_variants(packages: str, asked: str) -> None:
    spec = call("guest/install", packages=packages)
    assert " ".join(find(spec).plan(spec, DIRECTORY, "/scratch", 7).measure.argv).endswith(f" /scratch {asked}")


def test_an_installation_needs_a_lab_with_packages_and_root() -> None:
    install = find(call("guest/install"))
    reasons = install.reasons_not_to_run(call("guest/install"), replace(FACTS, root=False, tools={}))
    assert [reason.partition(";")[0] for reason in reasons] == [
        "guest/install: the packages that it installs are in guests and labs with the feature install",
        "guest/install: only root installs a system",
    ]
    assert install.reasons_not_to_run(call("guest/install"), FACTS) == []
