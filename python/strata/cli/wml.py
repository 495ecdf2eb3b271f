"""strata wml"""

from __future__ import annotations

from strata.hosts import local


def wml(arguments: list[str]) -> None:
    """Does not return: the engine takes this process's place, with its standard streams and its exit code."""
    known = arguments[:1] in (["check"], ["run"])
    local.become_engine(("wml", *([] if known else ["run"]), *arguments))
