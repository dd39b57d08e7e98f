"""From nothing to the first ``kubectl get nodes``: set-up time, size of the installation, and what a start takes.

From a clone (``git clone`` of this tree's last commit, ``make up``), and from a wheel (``pip install`` into a new
environment, ``pilothouse create cluster``). pip takes packages from where it is configured to, so that the network and
its cache are part of the set-up time. The last figures are of a second start, when all is set up. kubectl is that of
``KUBEBUILDER_ASSETS``; without it the list of nodes is printed by ``pilothouse get``.
"""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.processes import ROOT, cpu_seconds, started, wait_for_line
from bench.report import Figure, figure

_DROPPED = ("KUBECONFIG", "MAKEFLAGS", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV", "XDG_STATE_HOME")


def figures() -> list[Figure]:
    """Both ways."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-setup-") as name:
        directory = Path(name)
        return [*_of_clone(directory / "clone"), *_of_wheel(directory)]


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return {**kept, "HOME": str(home)}


def _run(words: Sequence[str], where: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def _timed(found: dict[str, float]) -> Iterator[None]:
    """Wall time and CPU of the children that end meanwhile."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found["wall"] = time.perf_counter() - began
    found["cpu"] = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime


def _megabytes(directory: Path) -> float:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def _get_nodes(pilothouse: Path, kubeconfig: Path) -> list[str]:
    kubectl = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kubectl"
    program = str(kubectl) if kubectl.is_file() else shutil.which("kubectl") or str(pilothouse)
    return [program, "get", "nodes", "--kubeconfig", str(kubeconfig)]


def _of_clone(clone: Path) -> list[Figure]:
    environment = _environment(clone.parent)
    _run(["git", "clone", "--quiet", str(ROOT), str(clone)], ROOT, environment)
    first, second = dict[str, float](), dict[str, float]()
    pilothouse, kubeconfig, log = clone / ".venv/bin/pilothouse", clone / ".pilothouse/kubeconfig", clone / "log"
    make = ["make", "-s", f"PYTHON={sys.executable}"]
    with _timed(first):
        _run([*make, ".venv/.compiled"], clone, environment)
    began = time.perf_counter()
    with started([str(pilothouse), "up", "--port=0"], log, cwd=clone, env=environment) as process:
        wait_for_line(process, "is ready", log)
        _run(_get_nodes(pilothouse, kubeconfig), clone, environment)
        second["wall"], second["cpu"] = time.perf_counter() - began, cpu_seconds(process.pid)
    return _rows("clone, make up", first, second, _megabytes(clone / ".venv"))


def _of_wheel(directory: Path) -> list[Figure]:
    environment = _environment(directory)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)], ROOT, environment)
    installed = directory / "installed"
    first, second = dict[str, float](), dict[str, float]()
    with _timed(first):
        _run([sys.executable, "-m", "venv", str(installed)], directory, environment)
        pip = [str(installed / "bin/python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, str(next(directory.glob("*.whl")))], directory, environment)
    pilothouse = installed / "bin/pilothouse"
    kubeconfig = directory / ".local/state/pilothouse/clusters/bench/kubeconfig"
    began = time.perf_counter()
    try:
        _run([str(pilothouse), "create", "cluster", "bench", "--no-context"], directory, environment)
        _run(_get_nodes(pilothouse, kubeconfig), directory, environment)
        second["wall"] = time.perf_counter() - began
        second["cpu"] = cpu_seconds(int((kubeconfig.parent / "lock").read_text()))
    finally:
        _run([str(pilothouse), "delete", "cluster", "bench"], directory, environment)
    return _rows("wheel, create cluster", first, second, _megabytes(installed))


def _rows(way: str, first: Mapping[str, float], second: Mapping[str, float], megabytes: float) -> list[Figure]:
    return [
        figure(f"{way}: set-up", "s", [first["wall"]]),
        figure(f"{way}: CPU of the set-up", "s", [first["cpu"]]),
        figure(f"{way}: size of the environment, pip included", "MB", [megabytes], budget=150),
        figure(f"{way}: start to kubectl get nodes", "s", [second["wall"]], budget=2.0, aim=1.0),
        figure(f"{way}: CPU of the cluster until then", "s", [second["cpu"]], budget=0.6, aim=0.5),
    ]
