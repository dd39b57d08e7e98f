"""The same seed gives the same run in every process, with any hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.determinism.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]


def _start(hash_seed: str, scenarios: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.determinism.scenarios", *scenarios],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(7200)
def test_runs_are_identical_with_different_hash_seeds(seeds: range) -> None:
    # It takes twice as long as the simulations: with few seeds, one is enough here.
    for seed in seeds if len(seeds) > 5 else seeds[:1]:
        scenarios = [f"{name}:{seed}" for name in SCENARIOS]
        digests = []
        for process in [_start("0", scenarios), _start("4711", scenarios)]:
            out, err = process.communicate(timeout=110)
            assert process.returncode == 0, err
            digests.append(out.splitlines())
        assert digests[0] == digests[1], f"seed {seed}"
        assert len(digests[0]) == len(SCENARIOS)


def test_different_seeds_give_different_runs() -> None:
    process = _start("0", ["garbage:1", "garbage:2"])
    out, err = process.communicate(timeout=110)
    assert process.returncode == 0, err
    first, second = (line.split()[-1] for line in out.splitlines())
    assert first != second
