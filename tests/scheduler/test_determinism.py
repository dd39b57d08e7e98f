"""The same seed gives the same result in every process, whatever its hash seed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def results(seed: int, *hash_seeds: str) -> list[str]:
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.scheduler.scenario", str(seed)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for hash_seed in hash_seeds
    ]
    outputs = []
    for process in processes:
        out, err = process.communicate(timeout=110)
        assert process.returncode == 0, err
        outputs.append(out)
    return outputs


def test_the_hash_seed_does_not_change_the_result() -> None:
    first, second = results(7, "0", "4711")
    assert first == second
    assert "Preempted by pod" in first
    assert "anti-affinity" in first
