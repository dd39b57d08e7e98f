"""The same seed tells the same story in every process, whatever its hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.determinism.stories import STORIES

ROOT = Path(__file__).parents[2]


def _start(hash_seed: str, stories: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.determinism.stories", *stories],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(7200)
def test_two_processes_with_different_hash_seeds_tell_the_same_stories(seeds: range) -> None:
    # It takes twice what the simulations themselves do: where few seeds are tried, two are enough here.
    for seed in seeds if len(seeds) > 5 else seeds[:2]:
        stories = [f"{name}:{seed}" for name in STORIES]
        told = []
        for process in [_start("0", stories), _start("4711", stories)]:
            out, err = process.communicate(timeout=110)
            assert process.returncode == 0, err
            told.append(out.splitlines())
        assert told[0] == told[1], f"seed {seed}"
        assert len(told[0]) == len(STORIES)


def test_another_seed_tells_another_story() -> None:
    process = _start("0", ["garbage:1", "garbage:2"])
    out, err = process.communicate(timeout=110)
    assert process.returncode == 0, err
    first, second = (line.split()[-1] for line in out.splitlines())
    assert first != second
