"""Compile the tests as pytest does, asserts rewritten, on all processors, and keep that where pytest looks for it.

    python scripts/compile_tests.py tests

pytest keeps what it rewrites, but not where PYTHONDONTWRITEBYTECODE is set; and workers that start together rewrite
everything each, which takes longer than all the rest of collecting. What is kept already and still fits stays.
"""

import ast
import os
import py_compile
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from _pytest.assertion import rewrite


def compile_module(path: Path) -> None:
    """As ``AssertionRewritingHook.exec_module`` does for tests, and Python for everything else."""
    if not path.name.startswith("test_") and path.name != "conftest.py":
        py_compile.compile(str(path), doraise=True)
        return
    directory = rewrite.get_cache_dir(path)
    kept = directory / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, kept) is not None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    stat, source = path.stat(), path.read_bytes()
    tree = ast.parse(source, filename=str(path))
    rewrite.rewrite_asserts(tree, source, str(path))
    written = directory / f"{kept.name}.{os.getpid()}"
    with written.open("wb") as file:
        rewrite._write_pyc_fp(file, stat, compile(tree, str(path), "exec", dont_inherit=True))
    written.replace(kept)


def compile_plugins(directory: Path) -> None:
    """pytest's plugins, whose asserts it rewrites too: those that it loads in order to find one file of tests."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    first = min(directory.rglob("test_*.py"))
    subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", str(first)],
        env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def main(directory: Path) -> None:
    """Everything below the directory."""
    # As pytest finds them: the code has the names of its files in it.
    paths = sorted(directory.resolve().rglob("*.py"))
    with ProcessPoolExecutor() as processes:
        for _ in processes.map(compile_module, paths, chunksize=8):
            pass
    compile_plugins(directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
