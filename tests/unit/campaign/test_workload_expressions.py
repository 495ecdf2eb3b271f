"""Workload expressions: names, variants, paths, arguments, and what is wrong with them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.campaign import parse_workloads
from strata.errors import BadInput
from strata.model import Call

from .catalogue import PRINTABLE, WORKLOADS

PATIENT = settings(deadline=None)  # how long an example takes says nothing on a busy machine

FILES = {"jobs/a.fio": "[a]", "my jobs/a b.fio": "[b]", "a@study": "[c]", "x:y": "[d]", "a\\b": "[e]", "./run.sh": "#!"}


def read_file(path: str) -> str:
    if path == "binary":
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def parse(text: str) -> list[Call]:
    return parse_workloads(text, WORKLOADS, where="here", read_file=read_file)


@pytest.mark.parametrize(
    ("written", "texts"),
    [
        ("null", ["null"]),
        ("fio/randrw-75-25(runtime=10s)", ["fio/randrw-75-25(runtime=10s)"]),
        ("fio/randrw-75-25(runtime=30000ms, size=1024M)", ["fio/randrw-75-25(size=1G)"]),
        ("dd/seqwrite-sync@study", ["dd/seqwrite-sync@study"]),
        ("dd/seqwrite-sync@study(size=2G)", ["dd/seqwrite-sync@study(size=2G)"]),
        ("fio/randrw-75-25(runtime={10s, 20s})", [f"fio/randrw-75-25(runtime={t})" for t in ("10s", "20s")]),
        ("{null, dd/seqwrite-sync}", ["null", "dd/seqwrite-sync"]),
        (
            "{fio/randrw-75-25, fio:jobs/a.fio}(runtime=9s)",
            ["fio/randrw-75-25(runtime=9s)", "fio:jobs/a.fio(runtime=9s)"],
        ),
        ("{null, null}", ["null"]),
        ("fio:jobs/a.fio", ["fio:jobs/a.fio"]),
        ("fio:jobs/a.fio@study", ["fio:jobs/a.fio@study"]),
        ('fio:"jobs/a.fio"', ["fio:jobs/a.fio"]),
        ('fio:"my jobs/a b.fio"', ['fio:"my jobs/a b.fio"']),
        ('fio:"my jobs/a b.fio"@study(runtime=9s)', ['fio:"my jobs/a b.fio"@study(runtime=9s)']),
        ('fio:"a@study"', ['fio:"a@study"']),
        ("command:a@study", ["command:a@study"]),
        ("command:x:y", ["command:x:y"]),
        ("command:a\\b", ["command:a\\b"]),
        ('command:"a\\\\b"', ["command:a\\b"]),
        ("command:./run.sh(json=out.json)", ["command:./run.sh(json=out.json)"]),
    ],
)
def test_canonical_text(written: str, texts: list[str]) -> None:
    assert [call.text for call in parse(written)] == texts
    assert [call.text for text in texts for call in parse(text)] == texts


def test_the_parts_of_a_call() -> None:
    (call,) = parse("dd/seqwrite-sync@study(size=2G)")
    assert (call.name, call.variant, call.path) == ("dd/seqwrite-sync", "study", None)
    assert dict(call.values) == {"size": 2 << 30}
    (call,) = parse('fio:"my jobs/a b.fio"@study')
    assert (call.name, call.variant, call.path) == ("fio:", "study", "my jobs/a b.fio")
    assert dict(call.values) == {"runtime": 30.0, "content": "[b]"}
    (call,) = parse('fio:"a@study"')
    assert (call.variant, call.path, call["content"]) == (None, "a@study", "[c]")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "there is nothing here; write something like: fio/randrw-75-25(runtime=10s)"),
        ("fio/randrw", 1, "there is no workload 'fio/randrw' (did you mean 'fio/randrw-75-25'?); the workloads are"),
        ("fio/randrw-75-52@study", 1, "there is no workload 'fio/randrw-75-52' (did you mean 'fio/randrw-75-25'?)"),
        ("dd/seqwrite-sync@stduy", 1, "no variant 'stduy' (did you mean 'study'?); it has study"),
        ("dd/seqwrite-sync@", 1, "no variant ''"),
        ("null@study", 1, "null has no variant 'study'; write it without '@'"),
        ("fio:", 1, "fio: needs a path; write it right after the colon: fio:PATH"),
        ("fio:nope.fio", 1, "cannot read nope.fio: No such file or directory; check the path"),
        ("fio:binary", 1, "cannot read binary:"),
        ('fio:"a b', 5, "this quotation mark is never closed"),
        ("fio: x", 6, "expected '|' or the end after 'fio:', but found 'x'"),
        ("null + null", 1, "'null + null' is not a single workload"),
        ("2*null", 1, "'2*null' is not a single workload"),
        ("null(x)", 6, "null has no argument 'x'; null takes no arguments"),
        ("fio/randrw-75-25(runtime=10)", 26, "'10' is not a time"),
        ("fio/randrw-75-25(runtime=0.5s)", 26, "runtime cannot be 500ms; the least is 1s"),
        ("fio/randrw-75-25(runtime=$t)", 26, "a workload cannot use a factor"),
        ("$w", 1, "a workload cannot use a factor"),
        ("null" + "({1, 2})" * 1, 7, "null has no argument '1'"),
    ],
)
def test_mistakes(text: str, column: int, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text)
    first = caught.value.problems[0]
    assert (first.where, first.line, first.column) == ("here", 1, column)
    assert message in first.message


def test_all_mistakes_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse("{nul, fio:nope(runtime=x), dd/seqwrite-sync@no(sise=1)}")
    assert [problem.column for problem in caught.value.problems] == [2, 7, 24, 28, 48]


@PATIENT
@given(st.text(alphabet=st.one_of(st.sampled_from('|+*,(){}="@:/\\$ '), PRINTABLE)))
def test_any_path_survives_printing(path: str) -> None:
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    for variant in (None, "study"):
        text = f'fio:"{quoted}"' + (f"@{variant}" if variant else "")
        if path:
            (call,) = parse_workloads(text, WORKLOADS, read_file=lambda _: "x")
            assert (call.path, call.variant) == (path, variant)
            (again,) = parse_workloads(call.text, WORKLOADS, read_file=lambda _: "x")
            assert (again.path, again.variant, again.text) == (path, variant, call.text)


@PATIENT
@given(st.lists(st.sampled_from([*'|+*,(){}="@:$ ', *WORKLOADS, "study", "runtime", "5s", "jobs/a.fio"])).map("".join))
def test_any_text_is_workloads_or_bad_input(text: str) -> None:
    with contextlib.suppress(BadInput):
        for call in parse(text):
            assert [again.text for again in parse(call.text)] == [call.text]
