"""What answers of probes mean: yes, no, and nothing known."""

from __future__ import annotations

import pytest

from strata.probes import probes
from strata.probes._probe import MIB, SHELL, words
from strata.published.documented import documents

CASES = [
    ("clone", "method=reflink\nseconds_10=0.005\nbytes_10=0\nseconds_160=0.012\nbytes_160=4096", True),
    ("clone", f"method=reflink\nseconds_10=0.1\nbytes_10=0\nseconds_160=0.2\nbytes_160={160 * MIB}", False),
    ("clone", "method=thin\nseconds_10=0.2\nbytes_10=0\nseconds_160=9.0\nbytes_160=0", False),
    ("clone", "method=none\nsaid=cp: Operation not supported", False),
    ("clone", "method=reflink", None),
    ("snapshot", "method=btrfs\nseconds=0.01\nbytes=0\nbytes_changed=8388608\nkept=yes", True),
    ("snapshot", "method=lvm\nseconds=0.01\nbytes=0\nkept=no", False),
    ("snapshot", "method=none", False),
    ("snapshot", "method=zfs\nseconds=0.01\nbytes=0", None),
    ("quota", f"written={15 * MIB}\nrefused=Disk quota exceeded", True),
    ("quota", f"written={48 * MIB}\nrefused=", False),
    ("quota", f"method=none\nsaid=quotas are off\nwritten={48 * MIB}", False),
    ("quota", "", None),
    ("direct", f"taken=yes\nbefore=0\ncached=0\ncached_plain={16 * MIB}", True),
    ("direct", f"taken=yes\nbefore=0\ncached={16 * MIB}\ncached_plain={16 * MIB}", False),
    ("direct", "taken=no\nsaid=Invalid argument", False),
    ("direct", "taken=unknown", None),
    ("direct", "taken=yes\nbefore=0\ncached=0\ncached_plain=0", None),
    ("checksums", "hits=1\nread=refused\nsaid=Input/output error", True),
    ("checksums", "hits=1\nread=changed", False),
    ("checksums", "hits=2\nread=same", None),
    ("checksums", "hits=0\nread=same", None),
    ("thin", "before=0\nafter=16384", True),
    ("thin", "before=2097152", False),
    ("thin", "before=131072\nafter=131072", False),
    ("thin", "", None),
    ("compression", f"random={32 * MIB}\ntext={4 * MIB}", True),
    ("compression", f"random={32 * MIB}\ntext={32 * MIB}", False),
    ("compression", f"random=0\ntext={4 * MIB}", None),
    ("dedup", f"first={32 * MIB}\nsecond=4096", True),
    ("dedup", f"first={32 * MIB}\nsecond={32 * MIB}", False),
    ("dedup", "first=0\nsecond=0", None),
    ("zeroed", "old=0", True),
    ("zeroed", "old=1048576", False),
    ("zeroed", "elsewhere=yes\nold=0", None),
    ("zeroed", "elsewhere=yes\nold=4096", False),
    ("zeroed", "method=none", None),
]


@pytest.mark.parametrize(("name", "answer", "holds"), CASES)
def test_an_answer_is_yes_no_or_nothing_known(name: str, answer: str, holds: bool | None) -> None:
    probe = probes()[name]
    found = probe.judge(words(answer))
    assert found.holds is holds
    assert found.why and not found.why.endswith(".")
    assert set(found.figures) <= {metric.name for metric in probe.metrics}


def test_every_probe_is_of_a_feature_that_documents_speak_of_or_of_one_of_its_own() -> None:
    assert set(probes()) - set(documents().features) == {"direct"}


def test_every_probe_is_tried_both_ways_here() -> None:
    assert {(name, holds) for name, _, holds in CASES} == {(n, h) for n in probes() for h in (True, False, None)}


def test_scripts_are_whole() -> None:
    for probe in probes().values():
        assert SHELL in probe.script
        assert not [
            word for word in ("DATA", "SIZES", "LIMIT", "CHANGED", "WRITTEN", "TRIED") if f" {word}" in probe.script
        ]


def test_an_answer_is_read_line_by_line() -> None:
    assert words("noise\na=1\nb=x=y\n=3\nA=4\n") == {"a": "1", "b": "x=y"}
