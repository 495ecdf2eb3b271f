"""`container/build`: an image of several layers built from the local base image, again and again, nothing cached."""

from __future__ import annotations

from strata.model import (
    Call,
    Command,
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
from strata.workloads import _batch, _image, _on_engine
from strata.workloads._batch import Phase

_MIB = 1 << 20

_DOCKERFILE = """\
FROM base
COPY tree /srv/tree
COPY large /srv/large
COPY package.deb /tmp/package.deb
RUN mkdir -p /var/lib/dpkg/info && touch /var/lib/dpkg/status && dpkg -i /tmp/package.deb
RUN find /data -type f -exec touch {} +
RUN rm -rf /srv/tree /tmp/package.deb
"""

# $1 scratch, $2 files, $3 bytes, $4 seed, $5 bytes of the large file. The package holds as many files again.
_CONTEXT = """\
cd "$1" && mkdir context context/tree package package/DEBIAN package/opt || exit 1
strata-engine age --dir context/tree --files "$2" --bytes "$3" --seed "$4" --rounds 1 >/dev/null || exit 1
strata-engine age --dir package/opt --files "$2" --bytes "$3" --seed "$(($4 + 1))" --rounds 1 >/dev/null || exit 1
printf '%s\\n' 'Package: strata-load' 'Version: 1' 'Architecture: all' 'Maintainer: Strata <strata@localhost>' \\
  'Description: files to install' >package/DEBIAN/control || exit 1
dpkg-deb --root-owner-group -Zgzip --build package context/package.deb >/dev/null || exit 1
head -c "$5" /dev/urandom >context/large || exit 1
printf '%s' "$6" >context/Dockerfile && rm -rf package && sync --file-system context"""

# Slower than this for a build is not a result any more.
_PATIENCE_S = 900.0


class Build(_on_engine.OnEngine):
    info = WorkloadInfo(
        name="container/build",
        about=(
            "Builds an image on a local one: many small files and a large one are copied in, a Debian package is "
            "installed, every file of the base is touched, and much is deleted; six layers, nothing cached or pulled."
        ),
        params=(
            Param("builds", ParamType.INT, "how many times, one after another", default=3, minimum=1, maximum=100),
            Param("large", ParamType.SIZE, "size of the large file", default=64 * _MIB, minimum=_MIB),
            _image.FILES,
            _image.SIZE,
        ),
        metrics=(
            Metric("build_s", "s", "lower", "middle time of a build"),
            *_batch.operation_metrics("builds", "building the image"),
        ),
        primary="build_s",
        accepts=frozenset({Kind.ENGINE}),
        tools={**_image.TOOLS, "dpkg-deb": "dpkg"},
        asks="build",
    )

    def data_bytes(self, spec: Call) -> int:
        return int(spec["builds"] or 1) * (3 * int(spec["size"] or 0) + int(spec["large"] or 0))

    def plan(self, spec: Call, target: Target, scratch: str, seed: int) -> TrialPlan:
        client, builds = target.path, int(spec["builds"] or 1)
        words = (str(spec["files"]), str(spec["size"]), str(seed % (1 << 62)), str(spec["large"]), _DOCKERFILE)
        context = ("sh", "-c", _CONTEXT, "sh", scratch, *words)
        names = [f"built{number}" for number in range(1, builds + 1)]
        phases = (Phase("builds", [(client, "build", f"{scratch}/context", name) for name in names]),)
        return _on_engine.trial(
            scratch,
            [
                _image.make(client, scratch, spec, seed),
                Command((client, "ready", _image.IMAGE), timeout_s=_PATIENCE_S),
                Command(context, timeout_s=_PATIENCE_S),
            ],
            phases,
            _PATIENCE_S * builds,
        )

    def read(self, spec: Call, output: TrialOutput) -> Measured:
        done = _batch.read(output, ("builds",))["builds"]
        figures = _batch.operation_figures("builds", done)
        return Measured(metrics={"build_s": _batch.median(done.took_s), **figures})


WORKLOADS: tuple[Workload, ...] = (Build(),)
