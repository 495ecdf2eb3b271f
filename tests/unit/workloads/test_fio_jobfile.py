from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Refused, WorkloadFailed
from strata.model import Kind, Target, TrialOutput
from strata.workloads import _fio_jobfile, find, workloads

from .workload_calls import FACTS, call, captured

DIRECTORY = Target(Kind.DIRECTORY, "/target", None)
DEVICE = Target(Kind.BLOCK, "/dev/disk/by-id/target", None)

GOOD = """\
; a comment
[global]
ioengine=libaio
direct=1
bs=4k
bssplit=4k/60:8k/40
description=reads and/or writes
write_iops_log=mine
[reader]
rw=randread
size=8m
filename=shared
[writer]
rw = randwrite
filename=shared
size=16m
numjobs=4
[own]
size=1g
numjobs=2
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("filename=/dev/sda", "outside the target"),
        ("filename = /dev/sda", "outside the target"),
        ("\tfilename=/dev/sda", "outside the target"),
        ("filename=good:/dev/sda", "outside the target"),
        ("filename=../up", "outside the target"),
        ("filename=..", "no file of the target"),
        ("filename=", "no file of the target"),
        ("directory=/mnt", "sets it to the target"),
        ("directory=sub", "sets it to the target"),
        ("opendir=/etc", "every file of a directory"),
        ("exec_prerun=rm -rf x", "starts a program"),
        ("exec_postrun=rm -rf x", "starts a program"),
        ("ioengine=exec", "outside the target"),
        ("ioengine=external:/tmp/x.so", "outside the target"),
        ("ioengine=rbd", "outside the target"),
        ("ioengine", "outside the target"),
        ("program=/bin/rm", "starts a program"),
        ("write_lat_log=/etc/x", "outside the target"),
        ("write_bw_log=../x", "outside the target"),
        ("mem=mmap:/etc/passwd", "outside the target"),
        ("replay_redirect=/dev/sda", "device of its own"),
        ("read_iolog=pattern", "names files of its own"),
        ("merge_blktrace_file=x", "delete the line"),
        ("cgroup=mine", "control groups"),
        ("profile=tiobench", "files of its own"),
        ("include other.fio", "reads another file"),
        ("size=${HOME}", "begins with \\$"),
        ("size=$mb_memory*2", "begins with \\$"),
        ("description=$ncpus*9; halt", "begins with \\$"),
        ("filename_format=${HOME}", "only \\$jobname"),
        ("filename_format=$ncpus", "only \\$jobname"),
        ("filename_format=../$jobname", "outside the target"),
        ("[${HOME}]", "begins with \\$"),
        ("filename=-", "no file of the target"),
        ("ioscheduler=none", "scheduler of a disk for good"),
        ("fill_device=1", "until no room is left"),
        ("fill_fs", "until no room is left"),
        ("lockmem=1g", "from the whole machine"),
        ("allow_mounted_write=1", "mounted"),
        ("uid=0", "as Strata does"),
        ("gid=0", "as Strata does"),
        ("cgroup_weight=100", "control groups"),
        ("cgroup_nodelete=1", "control groups"),
        ("write_iolog=pattern", "delete the line"),
        ("replay_no_stall=1", "not known to stay"),
        ("ioengine=libiscsi", "outside the target"),
        ("ioengine=net", "outside the target"),
        ("ioengine=http", "outside the target"),
        ("ioengine=nbd", "outside the target"),
        ("ioengine=dfs", "outside the target"),
        ("ioengine=e4defrag", "outside the target"),
        ("ioengine=io_uring_cmd", "outside the target"),
        ("hostname=example.org", "not known to stay"),
        ("arguments=x", "not known to stay"),
        ("uri=nbd:x", "not known to stay"),
        ("donorname=x", "not known to stay"),
        ("aux-path=x", "not known to stay"),
        ("trigger-file=x", "not known to stay"),
        ("dp_scheme=x", "not known to stay"),
        ("an_option_of_tomorrow=1", "not known to stay"),
        ("mem=mmaphuge:/mnt/huge", "outside the target"),
        ("write_hist_log=/etc/x", "outside the target"),
        ("verify_pattern='/etc/shadow'", "outside the target"),
        ("description=" + "x" * 4090 + "filename=/dev/sda", "longer than"),
        ("[../up]", "without a slash"),
        ("[unclosed", "closing bracket"),
    ],
)
@pytest.mark.parametrize("section", ["[global]", "[job]"])
def test_what_could_write_elsewhere_is_refused_with_its_line(section: str, line: str, words: str) -> None:
    text = f"[global]\nbs=4k\n{section}\n{line}\n[last]\nsize=1M\n"
    reasons = _fio_jobfile.refusals(text)
    assert len(reasons) == 1
    assert re.search(words, reasons[0])
    assert reasons[0].startswith("line 4: ")
    spec = call("fio:", content=text)
    for attempt in (lambda: find(spec).checks(spec), lambda: find(spec).plan(spec, DIRECTORY, "/scratch", 1)):
        with pytest.raises(Refused, match=words):
            attempt()


def test_options_that_are_harmless_are_taken() -> None:
    """As people write job files: by the aliases too."""
    text = "[global]\nreadwrite=randrw\nblocksize=4k\nramp_time=2\nrandom_distribution=zipf:1.1\nfilename_format="
    text += (
        "$jobname.$jobnum.$filenum\nbuffer_compress_percentage=50\nthinktime=1ms\n[a]\nrate_iops=100,,\nverify=crc32c\n"
    )
    assert _fio_jobfile.refusals(text) == []


def test_all_reasons_come_at_once() -> None:
    spec = call("fio:", content="size=1M\n[a]\nfilename=/x\ndirectory=/y\nexec_prerun=z\n")
    with pytest.raises(Refused) as refused:
        find(spec).checks(spec)
    assert len(refused.value.reasons) == 4


def test_a_good_file_is_checked_by_fio_itself() -> None:
    spec = call("fio:", content=GOOD)
    (check,) = find(spec).checks(spec)
    assert check.argv == ("fio", "--parse-only", "-")
    assert check.stdin == GOOD


@pytest.mark.parametrize("head", ["", "[secret\n"])
def test_what_is_no_job_file_is_not_quoted(head: str) -> None:
    """A link to a file that only root may read; eight lines of it were printed."""
    reasons = _fio_jobfile.refusals(head + "root:$y$secret:20228:0:99999:7:::\nkey=secret\n")
    assert reasons and "secret" not in " ".join(reasons)


def test_a_file_without_a_job() -> None:
    assert "no job" in _fio_jobfile.refusals("[global]\nbs=4k\n")[0]
    assert "no job" in _fio_jobfile.refusals("")[0]


def test_every_job_is_aimed_at_the_target_and_reports_as_we_read() -> None:
    spec = call("fio:", content=GOOD)
    plan = find(spec).plan(spec, DIRECTORY, "/scratch", 7)
    for file in ("job.fio", "layout.fio"):
        sections, problems = _fio_jobfile.parse(plan.put[f"/scratch/{file}"])
        assert problems == []
        assert [section.name for section in sections] == ["global", "global", "reader", "writer", "own"]
        assert [str(option) for option in sections[0].options] == ["directory=target/"]
        for section in sections[2:]:
            options = {option.key: option.value for option in section.options}
            assert options["directory"] == "target/"
            assert options["randseed"] == "7"
            assert ("create_only" in options) is (file == "layout.fio")
            assert ("group_reporting" in options) is (file == "job.fio")
    assert "write_iops_log=mine" not in plan.put["/scratch/job.fio"]
    assert plan.put["/scratch/job.fio"].count("write_iops_log=./series") == 3
    assert "rw=randwrite" in plan.put["/scratch/job.fio"]


def test_a_device_takes_the_place_of_every_file_name() -> None:
    spec = call("fio:", content=GOOD)
    plan = find(spec).plan(spec, DEVICE, "/scratch", 7)
    jobs = list(_fio_jobfile.jobs(plan.put["/scratch/job.fio"]))
    assert {job["filename"] for job in jobs} == {"target"}
    assert all("directory" not in job and job["allow_file_create"] == "0" for job in jobs)
    assert f"--filename={DEVICE.path}" in plan.prepare[1].argv


def test_runtime_replaces_the_files_own() -> None:
    spec = call("fio:", content="[a]\nruntime=99\nsize=1M\n[b]\nstonewall\nsize=1M\n", runtime=5.0)
    plan = find(spec).plan(spec, DIRECTORY, "/scratch", 7)
    jobs = list(_fio_jobfile.jobs(plan.put["/scratch/job.fio"]))
    assert [job["runtime"] for job in jobs] == ["5s", "5s"]
    assert plan.expect_s == 10.0
    assert plan.measure.timeout_s > 10.0
    assert [job["write_iops_log"] for job in jobs] == ["./series-5s", "./series-5s-group2"]
    assert plan.collect["group2.bw.log"] == "/scratch/series-5s-group2_bw.log"


def test_without_runtime_the_file_decides_and_the_time_out_holds() -> None:
    spec = call("fio:", content="[a]\nruntime=99\nsize=1M\n", timeout=120.0)
    plan = find(spec).plan(spec, DIRECTORY, "/scratch", 7)
    assert "runtime=99" in plan.put["/scratch/job.fio"]
    assert plan.expect_s is None
    assert plan.measure.timeout_s == 120.0


def test_a_seed_of_its_own_is_kept() -> None:
    spec = call("fio:", content="[a]\nrandseed=42\nsize=1M\n")
    job_file = find(spec).plan(spec, DIRECTORY, "/scratch", 7).put["/scratch/job.fio"]
    assert "randseed=42" in job_file
    assert "randseed=7" not in job_file


def test_room_needed() -> None:
    """Jobs that name one file share it; the others have one for each of their copies."""
    assert _fio_jobfile.data_bytes(GOOD) == (16 << 20) + 2 * (1 << 30)
    assert _fio_jobfile.data_bytes("[a]\nfilesize=4k\nnrfiles=10\n") == 40960
    assert _fio_jobfile.data_bytes("[a]\nsize=10%\n") == 0


@pytest.mark.parametrize(
    ("text", "buffered"),
    [
        ("[a]\ndirect=1\n", False),
        ("[a]\ndirect\n", False),
        ("[a]\nbuffered=0\n", False),
        ("[a]\n", True),
        ("[a]\ndirect=0\n", True),
        ("[global]\ndirect=1\n[a]\n[b]\n", False),
        ("[global]\ndirect=1\n[a]\n[b]\ndirect=0\n", True),
    ],
)
def test_through_the_page_cache(text: str, buffered: bool) -> None:
    assert _fio_jobfile.buffered(text) is buffered


def test_the_primary_metric_can_be_chosen() -> None:
    spec = call("fio:", content=GOOD, primary="write_lat_p99_ms")
    assert find(spec).primary_of(spec).better == "lower"


def test_groups_are_read_as_the_file_orders_them() -> None:
    output = captured("3.33-two-groups")
    after = call("fio:", content="[a]\n[b]\nstonewall\n")
    at_once = call("fio:", content="[a]\n[b]\nnew_group\n")
    assert find(after).read(after, output).metrics["runtime_s"] > 4
    assert find(at_once).read(at_once, output).metrics["runtime_s"] < 3
    with pytest.raises(WorkloadFailed):
        find(after).read(after, TrialOutput(1, 1.0, "", "fio: bad", {}))


OPTIONS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["filename", "directory", "[", "mem", "x"]),
    st.sampled_from(["=", " = ", ""]),
    st.text(max_size=8),
)
LINES = st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=20) | OPTIONS, max_size=8)


@given(LINES)
def test_what_is_not_refused_stays_in_the_target(lines: list[str]) -> None:
    """Whatever the file says, what fio gets names no path but those that we put in."""
    text = "\n".join(["[job]", *lines])
    if _fio_jobfile.refusals(text):
        return
    aimed = _fio_jobfile.aimed(text, {"directory": "/target"})
    for line in aimed.split("\n"):
        key, _, value = line.partition("=")
        if key.strip() not in ("bssplit", "cmdprio_bssplit", "description", "random_distribution"):
            assert value == "/target" or "/" not in value
    assert "directory=/target" in aimed


def test_io_uring_that_is_switched_off_is_said() -> None:
    off = replace(FACTS, io_uring_disabled="1")
    uring = call("fio:", content="[a]\nioengine=io_uring\nsize=1M\n")
    (reason,) = workloads()["fio:"].reasons_not_to_run(uring, off)
    assert "kernel.io_uring_disabled is 1" in reason and "another ioengine" in reason
    assert workloads()["fio:"].reasons_not_to_run(call("fio:", content=GOOD), off) == []
