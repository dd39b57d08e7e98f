"""The same seed places the same pods in every process, whatever its hash seed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def told(seed: int, *hash_seeds: str) -> list[str]:
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.scheduler.story", str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for hash_seed in hash_seeds
    ]
    stories = []
    for process in processes:
        out, err = process.communicate(timeout=110)
        assert process.returncode == 0, err
        stories.append(out)
    return stories


def test_no_hash_seed_changes_where_pods_go() -> None:
    first, second = told(7, "0", "4711")
    assert first == second
    assert "Preempted by pod" in first
    assert "anti-affinity" in first
