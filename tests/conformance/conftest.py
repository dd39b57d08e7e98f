"""A new, empty store of each kind for each test."""

from pathlib import Path

import pytest
from tests.conformance.stores import INLINE, MEMORY, THREAD, Run, runner


@pytest.fixture(params=[MEMORY, INLINE, THREAD])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return runner(request.param, tmp_path / "data")


@pytest.fixture(params=[MEMORY, INLINE])
def run_in_virtual_time(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return runner(request.param, tmp_path / "data")
