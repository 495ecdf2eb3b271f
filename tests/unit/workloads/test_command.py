from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import WorkloadFailed
from strata.model import Kind, Measured, Metric, Target, TrialOutput, Value
from strata.workloads import find

from .workload_calls import FACTS, call


def read(written: str | None, *, exit_code: int = 0, stderr: str = "", **given: Value | None) -> Measured:
    spec = call("command:", content="true\n", **given)
    files = {} if written is None else {"output.json": written}
    return find(spec).read(spec, TrialOutput(exit_code, 12.5, "", stderr, files))


def test_a_script_that_writes_nothing_has_its_run_time() -> None:
    assert read(None).metrics == {"duration_s": 12.5}


def test_its_own_figures() -> None:
    measured = read('{"boots": 3, "rate": {"value": 1e3, "unit": "1/s", "better": "higher"}}')
    assert measured.metrics == {"duration_s": 12.5, "boots": 3.0, "rate": 1000.0}
    assert [(m.name, m.unit, m.better) for m in measured.extra] == [("boots", "", "neither"), ("rate", "1/s", "higher")]


def test_one_of_them_decides() -> None:
    given_: dict[str, Value | None] = {"primary": "rate", "unit": "1/s", "better": "higher"}
    spec = call("command:", content="true\n", **given_)
    primary = find(spec).primary_of(spec)
    assert primary == Metric("rate", "1/s", "higher", "the script's own figure")
    measured = read('{"rate": 7}', **given_)
    assert measured.extra == (primary,)
    with pytest.raises(WorkloadFailed, match="did not write 'rate'"):
        read('{"other": 7}', **given_)
    with pytest.raises(WorkloadFailed, match="did not write 'rate'"):
        read(None, **given_)
    with pytest.raises(WorkloadFailed, match="make them agree"):
        read('{"rate": {"value": 7, "better": "lower"}}', **given_)
    with pytest.raises(WorkloadFailed, match="in 1/min, the campaign says 1/s"):
        read('{"rate": {"value": 7, "unit": "1/min"}}', **given_)


def test_the_script_may_say_the_unit_of_what_decides() -> None:
    measured = read('{"rate": {"value": 7, "unit": "1/min"}}', primary="rate")
    assert [(m.name, m.unit, m.better) for m in measured.extra] == [("rate", "1/min", "higher")]


def test_a_name_that_cannot_be_used_is_a_reason() -> None:
    spec = call("command:", content="true\n", primary="per cent")
    assert "per cent" in find(spec).reasons_not_to_run(spec, FACTS)[0]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "no JSON"),
        ('{"a": 1', "no JSON"),
        ("[1]", "no object"),
        ('{"a": "1"}', "no value"),
        ('{"a": true}', "no value"),
        ('{"a": null}', "no value"),
        ('{"a": NaN}', "no value"),
        ('{"a": 1' + "0" * 400 + "}", "no value"),
        ('{"a": {"unit": "s"}}', "no value"),
        ('{"a": {"value": 1, "better": "more"}}', "direction"),
        ('{"a": {"value": 1, "better": []}}', "direction"),
        ('{"a": {"value": 1, "unit": 5}}', "unit"),
        ('{"a": {"value": 1, "units": "s"}}', "keys other"),
        ('{"duration_s": 1}', "name"),
        ('{"per cent": 1}', "name"),
    ],
)
def test_what_cannot_be_used_is_a_failed_workload(written: str, words: str) -> None:
    with pytest.raises(WorkloadFailed, match=words):
        read(written)


def test_a_failed_script_says_its_last_words() -> None:
    with pytest.raises(WorkloadFailed, match=r"exit code 3: .*three; four$") as failed:
        read('{"a": 1}', exit_code=3, stderr="one\ntwo\nthree\nfour\n")
    assert "one" not in str(failed.value)


@given(st.text() | st.recursive(st.none() | st.floats() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_garbage_is_a_failed_workload(written: str) -> None:
    with pytest.raises(WorkloadFailed):
        read(written if not written.strip().startswith("{") else "")


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,20}", fullmatch=True).filter(lambda name: name != "duration_s")


@given(st.dictionaries(NAMES, NUMBERS, max_size=5))
def test_every_figure_written_is_read(figures: dict[str, float]) -> None:
    measured = read(json.dumps(figures))
    assert measured.metrics == {"duration_s": 12.5} | figures
    assert {metric.name for metric in measured.extra} == set(figures)


def test_on_a_device_it_starts_in_scratch_and_knows_the_device() -> None:
    spec = call("command:", content="#!/bin/sh\n", timeout=60.0, size=4096)
    plan = find(spec).plan(spec, Target(Kind.BLOCK, "/dev/x", None), "/scratch", 1)
    assert plan.measure.argv[-3:] == ("/scratch", "/dev/x", "/scratch/output.json")
    assert plan.put == {"/scratch/script": "#!/bin/sh\n"}
    assert plan.measure.timeout_s == 60.0
    assert find(spec).data_bytes(spec) == 4096
