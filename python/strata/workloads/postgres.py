"""`postgres/NAME`: a real PostgreSQL on the target, driven by sysbench beside it (study 2).

sysbench 0.4's test `--test=oltp --oltp-test-mode=complex` is `oltp_read_write` in 1.0. A transaction of both:

    0.4 (its defaults)            1.0 (as called here)
    --oltp-point-selects=10       --point_selects=10
    --oltp-simple-ranges=1        --simple_ranges=1
    --oltp-sum-ranges=1           --sum_ranges=1
    --oltp-order-ranges=1         --order_ranges=1
    --oltp-distinct-ranges=1      --distinct_ranges=1
    --oltp-range-size=100         --range_size=100
    --oltp-index-updates=1        --index_updates=1
    --oltp-non-index-updates=1    --non_index_updates=1
    one DELETE, one INSERT        --delete_inserts=1
    --oltp-dist-type=special      --rand-type=special
    --oltp-table-size=10000       --tables, --table_size: arguments here

1.0 may spread the rows over several tables, where 0.4 has one.
"""

from __future__ import annotations

import re

from strata.errors import WorkloadFailed
from strata.gate import GATE
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
from strata.workloads._common import declared, last_lines

_MIB = 1 << 20
# A row of sysbench with its share of both indexes, measured with a million rows on PostgreSQL 15: 254 bytes.
_ROW_BYTES = 260
# A fresh cluster with its databases and first log file takes 41 MiB.
_CLUSTER_BYTES = 64 * _MIB

# $1 the target, $2 a script, the rest its arguments. PostgreSQL refuses to be root, and its user may enter neither our
# directories nor those above them: so the script sees the target at /mnt, which nobody else does.
_AS_POSTGRES = """\
target=$1 script=$2; shift 2
if [ "$(id -u)" != 0 ]; then exec sh -c "$script" sh "$target" "$@"; fi
chown postgres:postgres -- "$target" || exit 1
exec unshare --mount --propagation private -- sh -c '
  mount --bind -- "$1" /mnt && cd /mnt || exit 1
  script=$2; shift 2
  exec setpriv --reuid=postgres --regid=postgres --init-groups -- sh -c "$script" sh /mnt "$@"' \
  sh "$target" "$script" "$@\""""

# $1 the directory. The sockets lie elsewhere, for the path of one may have 107 bytes at most.
_SERVER = """\
dir=$1; shift
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || { echo "there is no PostgreSQL server: install the Debian package postgresql" >&2; exit 1; }
sockets=$(mktemp -d) || exit 1
stop() {
  if [ -e "$dir/data/postmaster.pid" ]; then "$bin/pg_ctl" -D "$dir/data" -w -t 600 -m fast stop >/dev/null; fi
}
trap 'stop; rm -rf -- "$sockets"' EXIT
load=
trap '[ -z "$load" ] || kill "$load"; exit 143' TERM INT
start() {
  "$bin/pg_ctl" -D "$dir/data" -w -t 300 -l "$dir/server.log" -o "-k $sockets" start >/dev/null ||
    { tail -n 5 "$dir/server.log" >&2; exit 1; }
}
# $1 what sysbench knows, or a script of its language. In the background, for a shell hears no signal while it waits for
# what is in front.
bench() {
  script=$1; shift
  sysbench "$script" --db-driver=pgsql --pgsql-host="$sockets" --pgsql-user=postgres --pgsql-db=sbtest "$@" &
  load=$!
  wait "$load"
}
"""

# $2 settings, a line for each. Whatever is prepared is synced by the trial before its clock starts.
_INITDB = (
    _SERVER
    + """\
"$bin/initdb" --no-sync -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C >/dev/null || exit 1
printf '%s\\n' "$1" >> "$dir/data/postgresql.conf"; shift
start
"$bin/psql" -q -h "$sockets" -U postgres -d postgres -c 'CREATE DATABASE sbtest' || exit 1
"""
)
_LOAD = """\
bench oltp_read_write "$@" prepare >&2 || exit 1
"$bin/psql" -q -h "$sockets" -U postgres -d sbtest -c CHECKPOINT || exit 1
"""
_PREPARE = _INITDB + _LOAD
_TIMED_LOAD = (
    _SERVER
    + GATE
    + """\
start
gate
began=$(date +%s.%N)
"""
    + _LOAD
    + """\
ended=$(date +%s.%N)
passed
echo "$began $ended" | awk '{ printf "duration_s %.3f\\n", $2 - $1 }'
"""
)
# sysbench itself takes a moment to start: its first thread passes the gate when it is connected, and none begins before
# all are. It would give up after 30 s, by an alarm that it sets when its threads have been started.
_RUN = (
    _SERVER
    + GATE
    + """\
start
cat >"$sockets/gated.lua" <<'END'
require("oltp_read_write")
local ffi = require("ffi")
ffi.cdef("unsigned alarm(unsigned);")
local init = thread_init
function thread_init()
  init()
  if sysbench.tid == 0 and os.getenv("STRATA_GATE") then
    os.execute("sleep 0.3")
    ffi.C.alarm(0)
    if os.execute(os.getenv("STRATA_PASS")) ~= 0 then error("another load failed before this one began") end
  end
end
END
STRATA_PASS="$(cat <<'END'
"""
    + GATE
    + """\
gate
END
)" bench "$sockets/gated.lua" "$@" run
code=$?
passed
exit "$code"
"""
)

_TOOLS = {
    "pg_ctlcluster": "postgresql",
    "sysbench": "sysbench",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "awk": "mawk",
}

_PARAMS = (
    Param("tables", ParamType.INT, "how many tables", default=1, minimum=1, maximum=64),
    Param("rows", ParamType.INT, "rows of each table", default=1_000_000, minimum=1000),
    Param("threads", ParamType.INT, "how many clients", default=8, minimum=1, maximum=1024),
    Param(
        "shared_buffers",
        ParamType.SIZE,
        "the server's own cache, PostgreSQL's default",
        default=128 * _MIB,
        minimum=_MIB,
    ),
    Param(
        "wal",
        ParamType.SIZE,
        "max_wal_size: how much log there may be before a checkpoint is forced, PostgreSQL's default",
        default=1 << 30,
        minimum=32 * _MIB,
    ),
)

_PROGRESS = re.compile(r"^\[ (\d+)s \].* tps: ([0-9.]+)", re.MULTILINE)
_FIGURES = {
    "transactions": re.compile(r"^\s*transactions:\s+(\d+)", re.MULTILINE),
    "tps": re.compile(r"^\s*transactions:\s+\d+\s+\(([0-9.]+) per sec", re.MULTILINE),
    "qps": re.compile(r"^\s*queries:\s+\d+\s+\(([0-9.]+) per sec", re.MULTILINE),
    "latency_mean_ms": re.compile(r"^\s*avg:\s+([0-9.]+)", re.MULTILINE),
    "latency_p95_ms": re.compile(r"^\s*95th percentile:\s+([0-9.]+)", re.MULTILINE),
    "latency_max_ms": re.compile(r"^\s*max:\s+([0-9.]+)", re.MULTILINE),
    "errors_per_s": re.compile(r"^\s*ignored errors:\s+\d+\s+\(([0-9.]+) per sec", re.MULTILINE),
}


class _Postgres:
    """What both have in common."""

    info: WorkloadInfo

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        return [
            f"{spec.text}: the program {tool} is not installed; install the Debian package {package}"
            for tool, package in self.info.tools.items()
            if tool not in facts.tools
        ]

    def checks(self, spec: Call) -> list[Command]:
        return []

    def data_bytes(self, spec: Call) -> int:
        rows = int(spec["tables"] or 0) * int(spec["rows"] or 0)
        return _CLUSTER_BYTES + rows * _ROW_BYTES + int(spec["wal"] or 0)

    def primary_of(self, spec: Call) -> Metric:
        return declared(self.info, self.info.primary)

    def _data(self, spec: Call) -> tuple[str, ...]:
        return (f"--tables={spec['tables']}", f"--table_size={spec['rows']}")

    def _settings(self, spec: Call) -> str:
        buffers, wal = int(spec["shared_buffers"] or 0), int(spec["wal"] or 0)
        return f"listen_addresses = ''\nshared_buffers = {buffers // 1024}kB\nmax_wal_size = {wal // _MIB}MB"

    def _load_s(self, spec: Call) -> float:
        return 600.0 + int(spec["tables"] or 0) * int(spec["rows"] or 0) / 500


class OltpComplex(_Postgres):
    info = WorkloadInfo(
        name="postgres/oltp-complex",
        about=(
            "PostgreSQL on the target under sysbench's oltp_read_write, which is what version 0.4 called complex: ten "
            "point selects, four range queries, two updates, a delete and an insert in a transaction."
        ),
        params=(
            Param("runtime", ParamType.TIME, "how long to measure, in whole seconds", default=30.0, minimum=1.0),
            *_PARAMS,
        ),
        metrics=(
            Metric("tps", "1/s", "higher", "transactions per second", merge="sum"),
            Metric("qps", "1/s", "higher", "statements per second", merge="sum"),
            Metric("latency_mean_ms", "ms", "lower", "of a transaction"),
            Metric("latency_p95_ms", "ms", "lower", "of a transaction"),
            Metric("latency_max_ms", "ms", "lower", "of a transaction", merge="largest"),
            Metric("errors_per_s", "1/s", "lower", "transactions that were rolled back and tried again", merge="sum"),
        ),
        primary="tps",
        accepts=frozenset({Kind.DIRECTORY}),
        tools=_TOOLS,
    )

    def reasons_not_to_run(self, spec: Call, facts: Facts) -> list[str]:
        runtime_s = float(spec["runtime"] or 0)
        whole = runtime_s == round(runtime_s)
        return super().reasons_not_to_run(spec, facts) + (
            [] if whole else [f"{spec.text}: the runtime is in whole seconds; round it"]
        )

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        runtime_s = float(spec["runtime"] or 0)
        mix: tuple[str, ...] = (
            "--point_selects=10",
            "--simple_ranges=1",
            "--sum_ranges=1",
            "--order_ranges=1",
            "--distinct_ranges=1",
        )
        mix += ("--range_size=100", "--index_updates=1", "--non_index_updates=1", "--delete_inserts=1")
        how = (f"--threads={spec['threads']}", f"--time={round(runtime_s)}", "--events=0", "--report-interval=1")
        random = ("--rand-type=special", f"--rand-seed={seed % 2**31 or 1}", "--percentile=95")
        load = _command(target, _PREPARE, self._settings(spec), *self._data(spec), timeout_s=self._load_s(spec))
        run = (*self._data(spec), *mix, *how, *random)
        measure = _command(target, _RUN, *run, timeout_s=runtime_s + 900.0)
        return TrialPlan(
            prepare=(load,),
            measure=measure,
            collect={},
            expect_s=runtime_s,
            buffered=True,
            gated=measure,
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        _must_have_ended(output)
        found = {name: float(match[1]) for name, sign in _FIGURES.items() if (match := sign.search(output.stdout))}
        if "tps" not in found or not found.pop("transactions", 0):
            said = last_lines(output.stdout) or last_lines(output.stderr) or "it said nothing"
            raise WorkloadFailed(f"sysbench reports no transaction: {said}")
        points = [(float(second), float(tps)) for second, tps in _PROGRESS.findall(output.stdout)]
        return Measured(metrics=found, series={"tps": points})


class Prepare(_Postgres):
    info = WorkloadInfo(
        name="postgres/prepare",
        about="sysbench fills the tables of an empty PostgreSQL and makes their indexes; a checkpoint ends it.",
        params=_PARAMS,
        metrics=(
            Metric(
                "duration_s",
                "s",
                "lower",
                "sysbench prepare and the checkpoint, without the server's start and stop",
                merge="largest",
            ),
        ),
        primary="duration_s",
        accepts=frozenset({Kind.DIRECTORY}),
        tools=_TOOLS,
    )

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        how = (*self._data(spec), f"--threads={spec['threads']}", f"--rand-seed={seed % 2**31 or 1}")
        measure = _command(target, _TIMED_LOAD, *how, timeout_s=self._load_s(spec))
        return TrialPlan(
            prepare=(_command(target, _INITDB, self._settings(spec), timeout_s=600.0),),
            measure=measure,
            collect={},
            buffered=True,
            gated=measure,
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        _must_have_ended(output)
        found = re.search(r"^duration_s ([0-9.]+)$", output.stdout, re.MULTILINE)
        if found is None:
            raise WorkloadFailed(f"the load did not say how long it took: {last_lines(output.stderr) or 'nothing'}")
        return Measured(metrics={"duration_s": float(found[1])})


def _command(target: Target, script: str, *arguments: str, timeout_s: float) -> Command:
    return Command(("sh", "-c", _AS_POSTGRES, "sh", target.path, script, *arguments), timeout_s=timeout_s)


def _must_have_ended(output: TrialOutput) -> None:
    if output.exit_code != 0:
        said = last_lines(output.stderr) or last_lines(output.stdout) or "it said nothing"
        raise WorkloadFailed(f"PostgreSQL or sysbench ended with exit code {output.exit_code}: {said}")


WORKLOADS: tuple[Workload, ...] = (OltpComplex(), Prepare())
