"""`container/neighbours`: containers that read or write at once, each under a limit of I/O or not.

The limit is the engine's own where it has one. It is shown to hold in the kernel before anything is measured, and then
the question is what it does: to I/O bypassing the page cache, and to I/O through it, which a control group of version 1
does not see being written back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from strata.errors import WorkloadFailed
from strata.model import (
    Call,
    Command,
    Facts,
    Kind,
    Measured,
    Metric,
    Param,
    ParamType,
    Target,
    TrialOutput,
    TrialPlan,
    Workload,
    WorkloadInfo,
)
from strata.units import format_size
from strata.workloads import _batch, _fio, _fio_json, _image, _on_engine
from strata.workloads._batch import Done, Phase

_KIB, _MIB = 1 << 10, 1 << 20

_WAYS = ("direct", "buffered")
_BLOCK = {"write": 64 * _KIB, "read": 64 * _KIB, "randwrite": 4 * _KIB, "randread": 4 * _KIB}
# A limit counts as held up to here: a group may use up at the end what it was short of at the start.
_SLACK = 1.1

# Beside a container. $1 directory, $2 name, the rest: what runs in it, which prints its report. The container could put
# a link in the place of a report that it writes itself. dd, unlike head, writes at once what it has read, and no more
# than 16 MiB.
_KEEP = """\
report=$1/$2.json; shift 2
code=$({ { "$@" 3>&-; echo $? >&3; } | dd bs=4096 count=4096 status=none >"$report"; } 3>&1)
[ "$code" = 0 ] && exit
grep -e '^fio' -e '"error" : [1-9]' "$report" | tail -n 3 >&2
echo "fio ended with exit code ${code:-unknown}" >&2; exit 1"""

# In a container, which sees that directory and may not write there. $1 directory, the rest: what to start when all are
# ready.
_PLAY = """\
echo ready; number=0
until [ -e "$1/go" ]; do
  number=$((number + 1)); [ "$number" -lt 6000 ] || { echo "it was not told to begin" >&2; exit 1; }
  sleep 0.1
done
shift
exec "$@\""""

# Beside them. $1 client, $2 that directory, $3 how many they are, $4 seconds. Prints the bytes that the devices read
# and wrote before, and the processor's time before and after.
_CONDUCT = """\
number=0
until [ "$(cat -- "$2"/*.json 2>/dev/null | grep -cx ready)" -eq "$3" ]; do
  number=$((number + 1)); [ "$number" -lt 6000 ] || { echo "not all containers were ready" >&2; exit 1; }
  sleep 0.1
done
"$1" traffic c1 && head -n 1 /proc/stat || exit 1
: >"$2/go"; sleep "$4"; head -n 1 /proc/stat"""

# By the machine and not by the container, as the kernel's own writing back. $1 client, $2 name.
_SETTLE = 'sync --file-system "/proc/$("$1" pid "$2")/root"'

_PATH = "PATH=/bin:/usr/bin:/usr/local/bin"
_PATIENCE_S = 60.0


def _figures_of(way: str) -> Iterator[Metric]:
    how = "bypassing the page cache" if way == "direct" else "through the page cache"
    yield Metric(
        f"{way}_bandwidth", "MiB/s", "higher", f"bytes per second of all containers together, {how}", merge="sum"
    )
    yield Metric(
        f"{way}_iops", "IOPS", "higher", f"operations per second of all containers together, {how}", merge="sum"
    )
    yield Metric(f"{way}_p50_bandwidth", "MiB/s", "higher", f"of the middle container, {how}")
    yield Metric(f"{way}_min_bandwidth", "MiB/s", "higher", f"of the slowest container, {how}", merge="smallest")
    yield Metric(f"{way}_max_bandwidth", "MiB/s", "higher", f"of the fastest container, {how}", merge="largest")
    yield Metric(f"{way}_fairness", "ratio", "higher", "Jain's index of their rates: 1 when all have the same, 1/count "
                 "when one has everything", merge="none")  # fmt: skip
    yield Metric(
        f"{way}_iowait_pct",
        "%",
        "lower",
        f"idle processor time of the machine with I/O outstanding, {how}",
        merge="none",
    )
    yield Metric(f"{way}_limit_ratio", "ratio", "neither", f"what the middle container got of its limit, {how}; "
                 "without effect where it is far above 1", merge="none")  # fmt: skip
    yield Metric(f"{way}_limit_held", "ratio", "higher", "share of the containers that got no more than their limit, "
                 "10 % allowed", merge="none")  # fmt: skip
    yield Metric(f"{way}_disk_bandwidth", "MiB/s", "neither", f"what the devices below moved, {how}, until all of it "
                 "was on the disk", merge="none")  # fmt: skip
    yield Metric(
        f"{way}_disk_limit_ratio",
        "ratio",
        "neither",
        "that rate, of the limits of all containers together",
        merge="none",
    )


class Neighbours(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/neighbours",
        about=(
            "Containers read or write at the same time, each a file on its own root, each under a limit of I/O or not: "
            "what each gets, bypassing the page cache and through it, and what the limit does to that."
        ),
        params=(
            Param("count", ParamType.INT, "how many containers", default=4, minimum=1, maximum=1000, positional=True),
            Param("pattern", ParamType.CHOICE, "what each of them does; in blocks of 64K, or of 4K where random",
                  default="write", choices=tuple(_BLOCK)),
            Param("io", ParamType.CHOICE, "bypass the page cache, use it, or one after the other", default="both",
                  choices=("both", *_WAYS)),
            Param("bps", ParamType.SIZE, "limit of each container, bytes per second; none unless said", minimum=4096),
            Param("iops", ParamType.INT, "limit of each container, operations per second; none unless said", minimum=1),
            Param("file", ParamType.SIZE, "size of each container's file; through the page cache, one that memory "
                  "holds is read from there", default=64 * _MIB, minimum=_MIB),
            Param("runtime", ParamType.TIME, "how long each way is measured", default=10.0, minimum=1.0),
            _image.FILES,
            _image.SIZE,
        ),
        metrics=(
            Metric("bandwidth", "MiB/s", "higher", "bytes per second of all containers: bypassing the page cache, "
                   "where that is measured, or through it", merge="sum"),
            *(metric for way in _WAYS for metric in _figures_of(way)),
        ),
        primary="bandwidth",
        accepts=frozenset({Kind.ENGINE}),
        asks_by={"bps": "limit", "iops": "limit"},
        tools={**_image.TOOLS, "fio": "fio", "awk": "mawk", "findmnt": "util-linux"},
    )  # fmt: skip

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        reasons = super().reasons_not_to_run(spec, facts) + _fio.reasons(facts)
        if _limits(spec) and not facts.io_control:
            reasons.append(
                f"{spec.text}: this machine limits no I/O by control groups, neither by blkio (version 1) nor by io "
                "(version 2); leave out bps and iops, or boot a kernel with CONFIG_BLK_DEV_THROTTLING"
            )
        return reasons

    def data_bytes(self, spec: Call) -> int:
        file, count = int(spec["file"] or 0), int(spec["count"] or 1)
        return int(spec["size"] or 0) + file * (1 if _reads(spec) else count)

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, names, ways = target.path, _names(spec), _ways(spec)
        volumes = (_image.PROGRAMS, f"{scratch}:{scratch}:ro")
        words = (*volumes, *(f"limit:{limit}" for limit in _limits(spec)), "--", *_image.STAY)
        phases = [
            Phase("create", [(client, "create", _image.IMAGE, name, *words) for name in names]),
            _on_engine.each(client, "start", names),
            replace(_on_engine.each(client, "limits", names), keep=True),
        ]
        for way in ways:
            phases += _measured(spec, client, scratch, way, seed)
        phases.append(_on_engine.each(client, "remove", names))
        make = _image.make(client, scratch, spec, seed, int(spec["file"] or 0) if _reads(spec) else 0, programs=True)
        runtime_s = float(spec["runtime"] or 0)
        trial = _on_engine.trial(
            scratch,
            [make, Command(("mkdir", *(f"{scratch}/{way}" for way in ways)))],
            phases,
            3600.0 + _PATIENCE_S * len(names) + len(ways) * runtime_s,
        )
        files = {f"{way}-{name}.json": f"{scratch}/{way}/{name}.json" for way in ways for name in names}
        collect = {**trial.collect, **files}
        return replace(trial, expect_s=len(ways) * runtime_s, collect=collect, buffered="buffered" in ways)

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        ways = _ways(spec)
        done = _batch.read(output, ("limits", *(f"{way} {part}" for way in ways for part in ("at once", "traffic"))))
        _refuse_unlimited(spec, done["limits"].printed)
        figures: dict[str, float] = {}
        shares: list[Measured] = []
        for way in ways:
            these = [_share(output, way, name) for name in _names(spec)]
            figures |= _rates(spec, way, these) | _machine(spec, way, done)
            shares += these
        return Measured(
            metrics={"bandwidth": figures[f"{ways[0]}_bandwidth"], **figures},
            bytes_read=sum(share.bytes_read or 0 for share in shares),
            bytes_written=sum(share.bytes_written or 0 for share in shares),
        )


def _names(spec: Call) -> list[str]:
    return [f"c{number}" for number in range(1, int(spec["count"] or 1) + 1)]


def _ways(spec: Call) -> tuple[str, ...]:
    return _WAYS if spec["io"] == "both" else (str(spec["io"]),)


def _reads(spec: Call) -> bool:
    return str(spec["pattern"]).endswith("read")


def _limits(spec: Call) -> list[str]:
    """As the client takes them: "write-bps=1048576"."""
    way = "read" if _reads(spec) else "write"
    return [f"{way}-{unit}={spec[unit]}" for unit in ("bps", "iops") if spec[unit] is not None]


def _measured(spec: Call, client: str, scratch: str, way: str, seed: int) -> list[Phase]:
    names, directory = _names(spec), f"{scratch}/{way}"
    runtime = _fio.seconds(float(spec["runtime"] or 0))
    conduct = ("sh", "-c", _CONDUCT, "sh", client, directory, str(len(names)), f"{spec['runtime']:g}")
    players = []
    for number, name in enumerate(names):
        # What is read is a file of the image; what is written is new in the container's own layer.
        file = "/large" if _reads(spec) else "/neighbour.data"
        engine = ("--direct=1", "--ioengine=libaio", "--iodepth=8") if way == "direct" else ("--ioengine=psync",)
        fio = (
            *("fio", "--name=neighbour", f"--filename={file}", f"--rw={spec['pattern']}"),
            f"--bs={format_size(_BLOCK[str(spec['pattern'])])}",
            f"--size={format_size(int(spec['file'] or 0))}",
            *engine,
            # At each pass over the file fio would have the kernel write it back for the container, which is no
            # buffered writing any more.
            "--invalidate=0",
            *("--time_based", f"--runtime={runtime}", "--fallocate=none", "--refill_buffers=1", "--randrepeat=0"),
            f"--randseed={_fio.randseed(seed + number)}",
            *("--eta=never", "--output-format=json"),
        )
        play = (client, "exec", name, "/usr/bin/env", _PATH, "/bin/sh", "-c", _PLAY, "sh", directory)
        players.append(("sh", "-c", _KEEP, "sh", directory, name, *play, *fio))
    settle = [("sh", "-c", _SETTLE, "sh", client, name) for name in names]
    return [
        Phase(f"{way} at once", [conduct, *players], parallel=len(names) + 1, keep=True),
        Phase(f"{way} settled", settle, parallel=len(names)),
        Phase(f"{way} traffic", [(client, "traffic", "c1")], keep=True),
    ]


def _refuse_unlimited(spec: Call, printed: Sequence[str]) -> None:
    for name, said in zip(_names(spec), printed, strict=True):
        missing = [limit for limit in _limits(spec) if limit not in said.split()]
        if missing:
            raise WorkloadFailed(
                f"the container {name} was given the limit {missing[0]} and the kernel has none for it; see whether "
                "this kernel limits I/O by control groups"
            )


def _share(output: TrialOutput, way: str, name: str) -> Measured:
    """What one container's fio says. Raises WorkloadFailed."""
    said = output.files.get(f"{way}-{name}.json")
    one = replace(output, exit_code=0, files={} if said is None else {_fio_json.JSON: said})
    try:
        return _fio_json.read(one)
    except WorkloadFailed as error:
        raise WorkloadFailed(f"in the container {name}, {way} I/O: {error}") from error


def _rates(spec: Call, way: str, shares: Sequence[Measured]) -> dict[str, float]:
    rates = sorted(share.metrics["bandwidth"] for share in shares)
    figures = {
        f"{way}_bandwidth": sum(rates),
        f"{way}_iops": sum(share.metrics["iops"] for share in shares),
        f"{way}_p50_bandwidth": _batch.median(rates),
        f"{way}_min_bandwidth": rates[0],
        f"{way}_max_bandwidth": rates[-1],
        f"{way}_fairness": sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates)),
    }
    if _limits(spec):
        # Of two limits the one that is nearer binds.
        ratios = sorted(max(_of_limits(spec, share.metrics)) for share in shares)
        figures[f"{way}_limit_ratio"] = _batch.median(ratios)
        figures[f"{way}_limit_held"] = sum(ratio <= _SLACK for ratio in ratios) / len(ratios)
    return figures


def _of_limits(spec: Call, got: Mapping[str, float]) -> Iterator[float]:
    if spec["bps"] is not None:
        yield got["bandwidth"] * _MIB / float(spec["bps"])
    if spec["iops"] is not None:
        yield got["iops"] / float(spec["iops"])


def _machine(spec: Call, way: str, done: Mapping[str, Done]) -> dict[str, float]:
    """The machine's waiting for I/O, and what its devices moved; what cannot be read is left out."""
    figures: dict[str, float] = {}
    lines = done[f"{way} at once"].printed[0].splitlines()
    try:
        before, after = ([int(word) for word in line.split()[1:]] for line in lines[1:3])
        column = 0 if _reads(spec) else 1
        moved = int(done[f"{way} traffic"].printed[0].split()[column]) - int(lines[0].split()[column])
    except (ValueError, IndexError):
        return figures
    # user, nice, system, idle, iowait, irq, softirq, steal: proc(5)
    spent = [end - start for start, end in zip(before[:8], after[:8], strict=True)]
    if len(spent) >= 5 and sum(spent) > 0:
        figures[f"{way}_iowait_pct"] = 100 * spent[4] / sum(spent)
    rate = moved / (float(spec["runtime"] or 0) + done[f"{way} settled"].wall_s)
    figures[f"{way}_disk_bandwidth"] = rate / _MIB
    if spec["bps"] is not None:
        figures[f"{way}_disk_limit_ratio"] = rate / (float(spec["bps"]) * int(spec["count"] or 1))
    return figures


WORKLOADS: tuple[Workload, ...] = (Neighbours(),)
