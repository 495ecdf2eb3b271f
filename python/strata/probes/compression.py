"""Inline compression: what compresses takes less room than it has bytes."""

from __future__ import annotations

from collections.abc import Mapping

from strata.model import Kind, Metric
from strata.probes._probe import MEMORY, MIB, SHELL, TOOLS, Finding, Probe, memory, number

_DATA_MIB = 32
_SHARE = 0.8  # of its bytes, that text may take where it is compressed

_SCRIPT = (
    SHELL
    + """\
dir=$1
set -- $(volume)
lay DATA "${3:-}" "$dir/random" "$dir/text"
before=$(stored "$dir" "$@")
head --bytes DATAM /dev/urandom 1<>"$dir/random"
random=$(stored "$dir" "$@")
# Every line another: nothing here is equal to anything else in whole blocks.
lines() { seq -f 'line %.0f of a text that compresses' 1 9999999 | head --bytes DATAM; }
lines 1<>"$dir/text"
text=$(stored "$dir" "$@")
say random "$((random - before + laid))"
say text "$((text - random + laid))"
cold "$dir"
shown same [ "$(sha256sum <"$dir/text")" = "$(lines | sha256sum)" ]
say memory "$(saver_memory "$@")"
rm -f -- "$dir/random" "$dir/text\""""
).replace("DATA", str(_DATA_MIB))


def judge(found: Mapping[str, str]) -> Finding:
    random, text = number(found, "random"), number(found, "text")
    if random is None or text is None:
        return Finding(None, "the probe does not say how much was stored")
    if random < _SHARE * _DATA_MIB * MIB:
        return Finding(
            None, f"{_DATA_MIB} MiB that do not compress took {random / MIB:.1f} MiB, so the count says nothing"
        )
    why = f"{_DATA_MIB} MiB of text took {text / MIB:.1f} MiB, as many random bytes {random / MIB:.1f} MiB"
    if found.get("same") != "yes":
        return Finding(False if found.get("same") == "no" else None, f"{why}, and the text does not read as it was")
    figures, held = memory(found)
    return Finding(text < _SHARE * _DATA_MIB * MIB, why + held, {"compressed_bytes": max(text, 0.0), **figures})


PROBE = Probe(
    name="compression",
    about="Writes 32 MiB of random bytes and 32 MiB of text, and counts what each took.",
    accepts=frozenset({Kind.DIRECTORY}),
    script=_SCRIPT,
    judge=judge,
    metrics=(Metric("compressed_bytes", "bytes", "lower", "what 32 MiB of text took"), MEMORY),
    data_bytes=3 * _DATA_MIB * MIB,
    tools={"seq": "coreutils", "sha256sum": "coreutils", **TOOLS},
    own_files_only=True,
)
