"""A user's fio job file: what could write elsewhere is refused, and the rest is pointed at the target. Pure.

A job file can name any device, run any program, change the machine and reach other machines. So this is a list of what
is allowed: an option or an I/O engine that is not in it, and a value with a slash, are refused. The names are those of
fio 3.16 to 3.41 (options.c, and the engines' own), with their aliases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from strata.units import parse_size

_LONGEST = 1000  # fio reads a longer line (4096) as several, so that its end would be an option of its own

# engines whose I/O goes to `filename` or the files that fio makes in `directory`, or nowhere
_ENGINES = (
    *("cpuio", "falloc", "filecreate", "filedelete", "filestat", "ftruncate", "io_uring", "libaio", "mmap", "null"),
    *("posixaio", "psync", "pvsync", "pvsync2", "splice", "sync", "vsync"),
)
# a slash is no path in these
_SLASHES = frozenset({"bssplit", "cmdprio_bssplit", "description", "random_distribution"})
# Options by which a job stays in its target and leaves the machine as it is. Files that they name lie where fio starts,
# in the trial's scratch directory.
_HARMLESS = (
    # what is done to which file
    "name description filename filename_format unique_filename lockfile nrfiles openfiles file_service_type "
    "rw readwrite rw_sequencer bs blocksize bsrange blocksize_range bssplit bs_unaligned blocksize_unaligned "
    "bs_is_seq_rand ba blockalign size io_size io_limit filesize file_append offset offset_increment offset_align "
    "number_ios fallocate fadvise_hint overwrite create_serialize create_fsync create_on_open create_only "
    "allow_file_create unlink unlink_each_loop pre_read invalidate ignore_error continue_on_error "
    # at random
    "randrepeat allrandrepeat randseed norandommap softrandommap random_generator random_distribution "
    "percentage_random rwmixread rwmixwrite rwmixcycle "
    # how it is asked of the kernel
    "ioengine iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete_min iodepth_batch_complete_max "
    "iodepth_low serialize_overlap io_submit_mode direct buffered atomic sync fsync fdatasync write_barrier "
    "sync_file_range end_fsync fsync_on_close write_hint mem iomem iomem_align mem_align hugepage-size "
    "userspace_reap cmdprio cmdprio_percentage cmdprio_class cmdprio_bssplit nowait hipri hipri_percentage "
    "fixedbufs registerfiles sqthread_poll sqthread_poll_cpu nonvectored uncached force_async thp "
    "cpuload cpuchunks cpumode exit_on_io_done "
    # the content
    "zero_buffers refill_buffers scramble_buffers buffer_pattern buffer_compress_percentage buffer_compress_chunk "
    "dedupe_percentage dedupe_mode dedupe_working_set_percentage dedupe_global "
    "verify do_verify verify_only verify_interval verify_offset verify_pattern verify_fatal verify_dump "
    "verify_async verify_async_cpus verify_backlog verify_backlog_batch experimental_verify verify_state_load "
    "verify_state_save verify_header_seed verify_write_sequence error_dump "
    "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch "
    # devices with zones
    "zonemode zonesize zonecapacity zonerange zoneskip read_beyond_wp max_open_zones job_max_open_zones "
    "ignore_zone_limits zone_reset_threshold zone_reset_frequency recover_zbd_write_error "
    # when, how fast, how long
    "runtime timeout time_based ramp_time startdelay loops stonewall wait_for_previous wait_for new_group exitall "
    "exit_what exitall_on_error thinktime thinktime_spin thinktime_blocks thinktime_blocks_type thinktime_iotime "
    "thinkcycles rate rate_min ratemin rate_process rate_cycle ratecycle rate_ignore_thinktime rate_iops "
    "rate_iops_min max_latency latency_target latency_window latency_percentile latency_run "
    "flow flow_id flow_watermark flow_sleep steadystate ss steadystate_duration ss_dur steadystate_ramp_time "
    "ss_ramp steadystate_check_interval ss_interval "
    # the processes
    "numjobs thread nice prio prioclass cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy "
    "clocksource gtod_reduce gtod_cpu "
    # what is reported
    "write_bw_log write_iops_log write_lat_log write_hist_log bwavgtime iopsavgtime per_job_logs log_entries "
    "log_avg_msec log_window_value log_hist_msec log_hist_coarseness log_max_value log_offset log_prio "
    "log_compression log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch "
    "log_alternate_epoch_clock_id log_issue_time block_error_percentiles group_reporting unified_rw_reporting "
    "stats clat_percentiles lat_percentiles slat_percentiles percentile_list significant_figures disk_util "
    "disable_lat disable_clat disable_slat disable_bw disable_bw_measurement kb_base unit_base"
)
_ALLOWED = frozenset(_HARMLESS.split())
_PROGRAM = "it starts a program; use a `command:` workload for that"
_FULL = "it writes until no room is left; give a size, or put fill(80%) into the stack"
_PATTERN = "a recorded pattern names files of its own; delete the line"
_REFUSED: Mapping[str, str] = {
    "directory": "Strata sets it to the target; delete the line",
    "opendir": "it would do I/O to every file of a directory; delete the line",
    "read_iolog": _PATTERN,
    "write_iolog": "delete the line",
    "replay_redirect": "it sends I/O to a device of its own; delete the line",
    "merge_blktrace_file": _PATTERN,
    "exec_prerun": _PROGRAM,
    "exec_postrun": _PROGRAM,
    "program": _PROGRAM,
    "profile": "it sets files of its own; write its options out",
    "cgroup": "it would leave control groups behind; delete the line",
    "cgroup_weight": "it would leave control groups behind; delete the line",
    "cgroup_nodelete": "it would leave control groups behind; delete the line",
    "ioscheduler": "it changes the I/O scheduler of a disk for good; put the layer scheduler into the stack",
    "fill_device": _FULL,
    "fill_fs": _FULL,
    "lockmem": "it takes memory from the whole machine; delete the line",
    "allow_mounted_write": "nothing that is mounted may be written to as a device; delete the line",
    "uid": "the jobs run as Strata does; delete the line",
    "gid": "the jobs run as Strata does; delete the line",
}
_UNKNOWN = "it is not known to stay in the target; delete the line"
# fio puts numbers of the machine in their place, and has the value computed when it holds an operator.
_KEYWORDS = ("$pagesize", "$mb_memory", "$ncpus")
# what Strata needs to read the results; what the file says of these is left out
_OURS = frozenset(
    {
        *("group_reporting", "unified_rw_reporting", "lat_percentiles", "clat_percentiles", "percentile_list"),
        *("write_iops_log", "write_bw_log", "per_job_logs", "log_avg_msec", "log_max_value", "log_unix_epoch"),
        *("log_alternate_epoch", "log_compression", "log_store_compressed"),
    }
)
_SECTION = re.compile(r"^\s*\[.*\]", re.MULTILINE)
_SEQUENTIAL = frozenset({"stonewall", "wait_for_previous", "wait_for"})


@dataclass(frozen=True, slots=True)
class Option:
    line: int  # 1-based
    key: str
    value: str | None  # None: a bare flag

    def __str__(self) -> str:
        return self.key if self.value is None else f"{self.key}={self.value}"


@dataclass(frozen=True, slots=True)
class Section:
    line: int
    name: str
    options: tuple[Option, ...]

    @property
    def is_global(self) -> bool:
        return self.name.startswith("global")  # fio looks at no more than that


def parse(text: str) -> tuple[list[Section], list[str]]:
    """The sections, and a sentence for each line that is neither section, option nor comment."""
    sections: list[tuple[int, str, list[Option]]] = []
    problems: list[str] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if len(line) > _LONGEST:
            problems.append(f"line {number}: it is longer than {_LONGEST} characters; shorten it")
            continue
        if line.startswith("["):
            name, closed, _ = line[1:].partition("]")
            if not closed:
                problems.append(f"line {number}: the name of the section has no closing bracket; write [name]")
            sections.append((number, name, []))
            continue
        key, equals, value = line.partition("=")
        option = Option(number, key.strip(), value.strip() if equals else None)
        if option.key.startswith("include"):
            problems.append(f"line {number}: include reads another file; put its lines here")
        elif not sections:
            problems.append(f"line {number}: this stands before the first [section]; put it into [global]")
        else:
            sections[-1][2].append(option)
    found = [Section(line, name, tuple(options)) for line, name, options in sections]
    if not any(not section.is_global for section in found):
        problems.append("there is no job in it; add a section such as [job]")
    return found, problems


def refusals(text: str) -> list[str]:
    """Why this job file must not run, every reason at once, with its line; [] = it stays in its target."""
    if not _SECTION.search(text):
        # Nothing of it is quoted: it may be any other file, and secret.
        return ["there is no job in it and no section at all; give a fio job file, with a section such as [job]"]
    sections, problems = parse(text)
    for section in sections:
        if "/" in section.name:
            problems.append(f"line {section.line}: [{section.name}] would become a path; use a name without a slash")
        if "$" in section.name:
            problems.append(f"line {section.line}: [{section.name}]: fio replaces what begins with $; write it out")
        for option in section.options:
            reason = _refusal(option)
            if reason:
                problems.append(f"line {option.line}: {option}: {reason}")
    return problems


def _refusal(option: Option) -> str | None:
    value = option.value or ""
    if option.key not in _ALLOWED:
        return _REFUSED.get(option.key, _UNKNOWN)
    if "$" in value and option.key != "filename_format":
        # ${NAME} is from the environment; with $ncpus in it a value goes through a shell, to be computed by bc
        return "fio replaces what begins with $; write the value out"
    if "${" in value or any(word in value for word in _KEYWORDS):
        return "fio replaces what begins with $; use only $jobname, $jobnum, $filenum and $clientuid"
    if option.key == "ioengine" and value not in _ENGINES:
        return f"this engine may work outside the target; use one of {', '.join(_ENGINES)}"
    if option.key == "filename" and any(name in ("", ".", "..", "-") for name in value.split(":")):
        return "this is no file of the target; give a plain name, or delete the line"
    if "/" in value and option.key not in _SLASHES:
        if option.key == "filename":
            return "it would write outside the target; delete the line, or give a plain name"
        return "a path may lead outside the target; delete the line, or give a plain name"
    return None


def aimed(
    text: str, ours: Mapping[str, str | None], of_group: Callable[[int], Mapping[str, str | None]] = lambda group: {}
) -> str:
    """The job file with `ours` (option -> value, None for a flag) set in every job, in place of what it says itself.

    `of_group`: what is another in each group of jobs that follow one another, the first being 0.
    """
    drop = _OURS | set(ours)
    group_of = iter(_group_of_each(text))
    # fio puts a file into the directory that is known when it reads `filename`, and else where it was started.
    lines = ["[global]", f"directory={ours['directory']}"] if "directory" in ours else []
    for section in parse(text)[0]:
        lines.append(f"[{section.name}]")
        lines += [str(option) for option in section.options if option.key not in drop]
        if not section.is_global:
            own = {**ours, **of_group(next(group_of))}
            lines += [key if value is None else f"{key}={value}" for key, value in own.items()]
    return "\n".join(lines) + "\n"


def jobs(text: str) -> Iterator[dict[str, str | None]]:
    """The options of each job, those of the [global] sections before it included."""
    defaults: dict[str, str | None] = {}
    for section in parse(text)[0]:
        own = {option.key: option.value for option in section.options}
        if section.is_global:
            defaults |= own
        else:
            yield defaults | own


def groups(text: str) -> int:
    """How many groups of jobs follow one another; 1 when all run at once."""
    return 1 + max(_group_of_each(text), default=0)


def _group_of_each(text: str) -> list[int]:
    """Of each job the group it is in, 0 the first."""
    begins = [bool(_SEQUENTIAL & job.keys()) for job in jobs(text)]
    return list(accumulate([0, *begins[1:]]))


def seeded(text: str) -> bool:
    return any({"randseed", "randrepeat", "allrandrepeat"} & job.keys() for job in jobs(text))


def buffered(text: str) -> bool:
    """True when any job goes through the page cache, which is fio's default."""
    return any(not (_on(job, "direct") or job.get("buffered") == "0") for job in jobs(text))


def data_bytes(text: str) -> int:
    """How much room its files take, as far as the file says so in plain sizes."""
    named: dict[str, int] = {}
    total = 0
    for job in jobs(text):
        size = _size(job.get("size")) or _size(job.get("filesize")) * _count(job.get("nrfiles"))
        filename = job.get("filename")
        if filename is None:
            total += size * _count(job.get("numjobs"))
        else:
            named[filename] = max(size, named.get(filename, 0))  # jobs share the file
    return total + sum(named.values())


def _on(job: Mapping[str, str | None], key: str) -> bool:
    return key in job and job[key] in (None, "1")


def _size(text: str | None) -> int:
    try:
        return parse_size(text or "0")
    except ValueError:
        return 0


def _count(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1
