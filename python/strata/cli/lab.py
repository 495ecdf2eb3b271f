"""strata lab"""

from __future__ import annotations

import time
from collections.abc import Sequence

from strata.cli import output
from strata.errors import BadInput, Interrupted
from strata.hosts.local import LocalHost
from strata.lab import cache as caches
from strata.lab import image
from strata.lab.image import Listed
from strata.lab.spec import LabSpec
from strata.run.signals import Interrupts
from strata.units import human_size, human_time


def build(debian: int, features: str | None, kernel: str | None) -> None:
    wanted = frozenset(feature.strip() for feature in (features or "").split(",") if feature.strip())
    spec = LabSpec(debian, kernel, wanted)
    interrupts = Interrupts()
    try:
        with interrupts.listening():
            image.build(spec, caches.default(), LocalHost(image.marker(spec), interrupts), _say)
    except Interrupted as error:
        raise Interrupted(f"interrupted; what was made is removed, and `{spec.command}` begins again.") from error


def status(as_json: bool) -> None:
    cache = caches.default()
    labs = image.listing(cache)
    if as_json:
        shown = [_as_json(lab) for lab in labs]
        output.json({"version": 1, "cache": str(cache), "labs": shown})
    elif labs:
        output.out("\n".join([f"labs in {cache}", *(_line(lab) for lab in labs)]))
    else:
        output.out(f"There is no lab in {cache}; type `strata lab build`.")


def remove(names: Sequence[str], everything: bool) -> None:
    if bool(names) == everything:
        raise BadInput("say which lab: its name as `strata lab status` shows it, or --all.")
    cache = caches.default()
    removed = image.remove(None if everything else list(names), cache, LocalHost("lab-remove"))
    output.out(f"Removed {', '.join(removed)}." if removed else f"There is no lab in {cache}.")


def _say(line: str) -> None:
    output.err(f"lab: {line}")


def _line(lab: Listed) -> str:
    if lab.spec is None or lab.built_unix_s is None:
        return f"  {lab.name}  {lab.state}, {human_size(lab.size_bytes)}"
    age = human_time(max(0.0, time.time() - lab.built_unix_s))
    about = f"Debian {lab.spec.debian}, kernel {lab.kernel_version}"
    features = f", {', '.join(sorted(lab.spec.features))}" if lab.spec.features else ""
    state = f"{lab.state}, superseded" if lab.state == "ready" and not lab.current else lab.state
    return f"  {lab.name}  {about}{features}; {human_size(lab.size_bytes)}, built {age} ago, {state}"


def _as_json(lab: Listed) -> dict[str, object]:
    return {
        "name": lab.name,
        "state": lab.state,
        "current": lab.current,
        "size_bytes": lab.size_bytes,
        "built_unix_s": lab.built_unix_s,
        "debian": None if lab.spec is None else lab.spec.debian,
        "kernel": None if lab.spec is None else lab.spec.kernel,
        "kernel_version": lab.kernel_version,
        "features": None if lab.spec is None else sorted(lab.spec.features),
    }
