"""Synthetic runs and what the report makes of them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from strata import report
from strata.analysis.checks import warnings
from strata.analysis.rank import rank
from strata.model import View
from strata.report.model import ReportModel


def _load(name: str) -> ModuleType:
    """A module beside this file; the tests are no package."""
    spec = importlib.util.spec_from_file_location(f"report_{name}", Path(__file__).parent / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SYNTHETIC = _load("synthetic")


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    return SYNTHETIC


@pytest.fixture(scope="session")
def model_of() -> Callable[[View], ReportModel]:
    return lambda view: report.build(view, rank(view), warnings(view))


@pytest.fixture(scope="session")
def ordinary(model_of: Callable[[View], ReportModel]) -> ReportModel:
    return model_of(SYNTHETIC.ordinary())
