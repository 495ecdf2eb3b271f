"""Why engines cannot use the control groups of a machine. Nothing is said where nothing is known of them."""

from __future__ import annotations

import re

from strata.model import Facts

# The first version of each that knows version 2.
_SECOND = (("dockerd", (20, 10)), ("runc", (1, 0)), ("lxc-start", (4, 0)))


def control_group_reasons(engine: str, facts: Facts, *programs: str) -> list[str]:
    """What `programs` of an engine cannot do with the control groups of this machine; [] = nothing is in the way.

    Sources: messages of crun 1.8 and of dockerd 20.10; the release notes of Docker 20.10, runc 1.0 and LXC 4.0.
    """
    first = {each.removeprefix("1:") for each in facts.cgroups if each.startswith("1:")}
    second = {each.removeprefix("2:") for each in facts.cgroups if each.startswith("2:")}
    if not facts.cgroups:
        return []
    reasons = []
    if "crun" in programs and first and second:
        reasons.append(
            f"crun starts no container where both versions of control groups have controllers, as here (version 2: "
            f"{', '.join(sorted(second))}); use {engine}(runtime=runc), or boot with one version."
        )
    if "dockerd" in programs and first and not second and "devices" not in first:
        reasons.append(
            "dockerd needs the control group devices, which is not mounted; mount it below /sys/fs/cgroup, or boot "
            "with version 2 (systemd.unified_cgroup_hierarchy=1)."
        )
    if not first:
        reasons += [
            f"{program} {version} knows only version 1 of control groups, and here is version 2; install "
            f"{oldest[0]}.{oldest[1]} or newer, or boot with systemd.unified_cgroup_hierarchy=0."
            for program, oldest in _SECOND
            if program in programs and (version := _older(facts.tools.get(program), oldest))
        ]
    return reasons


def _older(said: str | None, than: tuple[int, int]) -> str:
    found = re.search(r"\b(\d+)\.(\d+)", said or "")
    return found[0] if found is not None and (int(found[1]), int(found[2])) < than else ""


def rootless_reasons(title: str, facts: Facts) -> list[str]:
    """What an ordinary user's engine would need beside what Strata needs root for; [] for root."""
    if facts.root:
        return []
    reasons = []
    missing = [program for program in ("newuidmap", "newgidmap") if program not in facts.id_maps]
    if missing:
        reasons.append(
            f"Without root {title} would need {' and '.join(missing)} as well; install the Debian package uidmap."
        )
    files = [f"/etc/{name}" for name in ("subuid", "subgid") if name not in facts.id_maps]
    if files:
        reasons.append(
            f"Without root {title} would need ids for its containers as well, and {' and '.join(files)} give this user "
            "none; `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER` does."
        )
    return reasons
