"""What the user wrote on the command line, as a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from strata import campaign as campaigns
from strata import layers, workloads
from strata.campaign import Campaign, DiskSpec
from strata.errors import BadInput
from strata.run import session


def campaign(what: Sequence[str], loads: Sequence[str], sizes: Sequence[str]) -> Campaign:
    """One campaign file, or stack expressions; `-w` replaces the workloads of a file."""
    if is_file(what):
        written = _load(Path(what[0]))
        if loads:
            named = [
                call
                for text in loads
                for call in campaigns.parse_workloads(text, workloads.catalogue(), where="-w", read_file=_read)
            ]
            written = replace(written, workloads=tuple(named))
    else:
        written = campaigns.from_expressions(
            what, loads, layers=layers.catalogue(), workloads=workloads.catalogue(), read_file=_read
        )
    given = {role: DiskSpec(size_bytes=size) for role, size in session.as_role_sizes(sizes).items()}
    return replace(written, disks={**written.disks, **given}) if given else written


def is_file(what: Sequence[str]) -> bool:
    """Whether it is one campaign file, and not stack expressions."""
    if len(what) != 1:
        return False
    (text,) = what
    return text.endswith((".yaml", ".yml")) or ("|" not in text and Path(text).is_file())


def _load(path: Path) -> Campaign:
    return campaigns.load(
        _read_or_refuse(path),
        where=str(path),
        layers=layers.catalogue(),
        workloads=workloads.catalogue(),
        # files that a campaign names lie beside it
        read_file=lambda name: _read(str(path.parent / name)),
    )


def _read(name: str) -> str:
    return Path(name).read_text()


def _read_or_refuse(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(
            f"cannot read {path}: {reason}; give a campaign file, or a stack expression in quotes."
        ) from error
