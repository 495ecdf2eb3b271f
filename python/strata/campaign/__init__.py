"""Pure: the file model, stack and workload expressions, and their expansion into stacks.

No layer and no workload is known here by name; they come as catalogues. Nothing reads a file or a clock: files
come through the caller's `read_file`.
"""

from __future__ import annotations

from collections.abc import Callable

from strata.campaign.as_file import as_file
from strata.campaign.campaign import (
    DEFAULT_DISK_BYTES,
    DEFAULT_WORKLOADS,
    Campaign,
    DiskSpec,
    differences,
    from_expressions,
    model_text,
    placed,
)
from strata.campaign.changed import with_argument
from strata.campaign.expand import canonical
from strata.campaign.stacks import parse_stacks
from strata.campaign.workloads import parse_workloads
from strata.model import Catalogue, WorkloadCatalogue

__all__ = [
    "DEFAULT_DISK_BYTES",
    "DEFAULT_WORKLOADS",
    "Campaign",
    "DiskSpec",
    "as_file",
    "canonical",
    "differences",
    "from_expressions",
    "load",
    "model_text",
    "parse_stacks",
    "parse_workloads",
    "placed",
    "with_argument",
]


def load(
    text: str,
    *,
    where: str,
    layers: Catalogue,
    workloads: WorkloadCatalogue,
    read_file: Callable[[str], str],
    profile: str | None = None,
) -> Campaign:
    """The campaign of a YAML file; `strata.campaign.file` describes its form. Raises BadInput with every problem."""
    from strata.campaign.file import load as load_file  # YAML and its models are slow to import

    return load_file(text, where=where, layers=layers, workloads=workloads, read_file=read_file, profile=profile)
