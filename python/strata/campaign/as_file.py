"""A campaign written out: a file that loads to this very campaign, whatever the command line said over it."""

from __future__ import annotations

import json
from typing import Any

from strata.campaign.campaign import Campaign
from strata.model import Testbed
from strata.units import format_percent, format_size, format_time


def as_file(campaign: Campaign, seed: int) -> str:
    """YAML, one key a line, values in JSON. `seed`: the one that the run has. The files that it names are in it."""
    models = {disk.model: disk.model_text for disk in campaign.disks.values() if disk.model and disk.model_text}
    scripts = {call.path: str(call.values["content"]) for call in campaign.workloads if call.path is not None}
    keys: dict[str, Any] = {
        "name": campaign.name,
        "about": campaign.about,
        "testbed": _testbed(campaign.testbed),
        "memory": None if campaign.memory_bytes is None else format_size(campaign.memory_bytes),
        "disks": {
            role: _stated({"size": format_size(disk.size_bytes), "model": disk.model, "write_cache": disk.write_cache})
            for role, disk in campaign.disks.items()
        },
        "stacks": [stack.text for stack in campaign.stacks],
        "workloads": [call.text for call in campaign.workloads],
        "rule": _stated(
            {
                "rounds": campaign.rule.rounds,
                "within": format_percent(campaign.rule.within),
                "confidence": format_percent(campaign.rule.confidence),
                "budget": None if campaign.rule.budget_s is None else format_time(campaign.rule.budget_s),
                "design": None if campaign.rule.design == "rounds" else campaign.rule.design,
                "certify": campaign.rule.certify or None,
                "objective": campaign.rule.objective or None,
            }
        ),
        "seed": seed,
        "files": {**models, **scripts} or None,
        # the rest is what this profile made of its file: to be loaded under it, as whatever it is compared with was
        "profiles": None if campaign.profile is None else {campaign.profile: {}},
    }
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in _stated(keys).items())


def _testbed(testbed: Testbed) -> Any:
    if testbed.kind == "ssh":
        return f"ssh:{testbed.host}"
    if testbed.kind == "local":
        return "local"
    said = {
        "clock": testbed.clock,
        "debian": testbed.debian,
        "kernel": testbed.kernel,
        "memory": format_size(testbed.memory_bytes),
        "cpus": testbed.cpus,
        "mips": testbed.mips if testbed.mips != Testbed().mips else None,
        "features": sorted(testbed.features) or None,
    }
    return {"lab": _stated(said)}


def _stated(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
