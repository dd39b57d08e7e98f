"""Shared hooks and fixtures: coroutine tests, the real cluster, markers of slow tests, seeds of simulations."""

import contextlib
import functools
import gc
import os
import signal
import subprocess
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from tests import stores
from tests.coroutines import env, pytest_fixture_setup, pytest_pyfunc_call
from tests.golden import Golden
from tests.logs_of_tests import pytest_runtest_protocol
from tests.real_cluster import GOGC, RealCluster, missing_programs
from tests.timeouts import pytest_timeout_set_timer
from tests.work_units import pytest_xdist_make_scheduler

__all__ = [
    "env",
    "pytest_fixture_setup",
    "pytest_pyfunc_call",
    "pytest_runtest_protocol",
    "pytest_timeout_set_timer",
    "pytest_xdist_make_scheduler",
]

# gRPC's fork handlers abort the child (SIGABRT) while another thread uses gRPC, and ``tests.programs`` forks for
# ``preexec_fn``. No forked child uses gRPC. The variable is set before gRPC is imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# Inherited by every kubectl, most of which spent a fifth of their CPU time in garbage collection.
os.environ.setdefault("GOGC", GOGC)

# The duration of one example depends more on the load of the machine than on the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

_NONE = SimpleNamespace(params={})


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seeds N`` and ``--soak``: one seed in ``make test``, full counts in ``make explore`` and ``make soak``.

    By default a third of the simulations, another third with each commit, runs with a second seed.
    """
    group = parser.getgroup("pilothouse")
    group.addoption("--seeds", type=int, help="how many seeds each simulation is tried with (default 1; a third 2)")
    group.addoption("--seed", default="", help="only this seed, or these: 17 or 300-599")
    group.addoption("--recorded", default="", help="replay one recorded scenario and print it: 17; or many: 1-99")
    group.addoption(
        "--write-golden", action="store_true", help="write the files in golden/ from the results of the tests"
    )
    group.addoption("--soak", action="store_true", help="run the long versions of tests that have one")
    group.addoption("--soak-minutes", type=float, default=30, help="how long the soak itself then takes (default 30)")
    group.addoption(
        "--store", choices=stores.KINDS, default="memory", help="store of API servers in tests (default memory)"
    )
    group.addoption("--kills", type=int, default=100, help="how often each program is killed in the soak (default 100)")


def pytest_configure(config: pytest.Config) -> None:
    """Select the store of all servers."""
    stores.select(config)
    # In the background of a script SIGINT is ignored, also by the programs that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a ``seed`` argument runs once per seed, unless it is parametrized with seeds."""
    explicit = any("seed" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "seed" in metafunc.fixturenames and not explicit:
        seeds = _seeds(metafunc.config)
        requested = metafunc.config.getoption("--seeds") or metafunc.config.getoption("--seed")
        has_second = requested or _has_second_seed(metafunc.definition.nodeid)
        metafunc.parametrize("seed", seeds if has_second else seeds[:1])


_SECOND_SEED_INTERVAL = 3


def _has_second_seed(nodeid: str) -> bool:
    """Whether the test runs with a second seed at this commit. Within ``_SECOND_SEED_INTERVAL`` commits each does."""
    return (zlib.crc32(nodeid.encode()) + _commit_count()) % _SECOND_SEED_INTERVAL == 0


@functools.cache
def _commit_count() -> int:
    """The number of commits in the repository: few in a shallow clone, 0 without a repository."""
    command = ["git", "rev-list", "--count", "HEAD"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        return int(subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True).stdout)
    return 0


_DEFAULT_SEEDS = 2
_MAX_ID_LENGTH = 200


def pytest_make_parametrize_id(val: object) -> str | None:
    """Abbreviate long strings: the id is part of every report of the test."""
    if isinstance(val, str) and len(val) > _MAX_ID_LENGTH:
        return f"{val[:50].encode('unicode_escape').decode()} ({len(val)} characters)"
    return None


def _seeds(config: pytest.Config) -> range:
    selected: str = config.getoption("--seed")
    if not selected:
        return range(config.getoption("--seeds") or _DEFAULT_SEEDS)
    first, _dash, last = selected.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection.

    17,000 tests and their imports are a million objects that live until the end. Traversing them takes a fifth of the
    time of the collection, and more while tests run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 10)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add the command that replays a failing seed to the report."""
    report = yield
    if report.failed and isinstance(item, pytest.Function) and "seed" in getattr(item, "callspec", _NONE).params:
        seed = item.callspec.params["seed"]
        name = item.originalname
        target = "explore" if "/scenarios/" in item.nodeid or "/determinism/" in item.nodeid else "test-all"
        report.sections.append(("replay", f'make {target} ARGS="-k {name} --seed {seed}"'))
    return report


GROUPS = {"shared": "the real cluster", "own": "clusters of their own", "none": None}
"""xdist groups by the argument ``cluster`` of ``pytest.mark.real``; the default is the shared cluster.

With ``--dist loadgroup`` a group runs on one worker, so at most two modules with clusters run at a time: more would
compete for the processors and slow each other down tenfold.
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Mark tests on the real cluster, skip them with the reason if its programs are missing, and group them by worker.

    Tests in ``clients`` are slow: each module starts a ``pilothouse up`` and clients of it.
    """
    problem = missing_programs()
    for item in items:
        if (mark := item.get_closest_marker("not_on")) and stores.selected in mark.args:
            item.add_marker(pytest.mark.skip(reason=mark.kwargs["reason"]))
        if "real_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)
            if problem:
                item.add_marker(pytest.mark.skip(reason=problem))
        group = None
        if real := item.get_closest_marker("real"):
            if problem:
                item.add_marker(pytest.mark.skip(reason=problem))
            group = GROUPS[real.kwargs.get("cluster", "shared")]
        elif "clients" in item.path.parts:
            # The tests of a module share its programs, and some depend on their order.
            item.add_marker(pytest.mark.slow)
            group = item.path.name
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    result = yield  # conftest files of directories add marks
    # Groups take longest and mostly wait: started last, they would leave the other workers idle. Other long tests are
    # started before short ones for the same reason.
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("xdist_group", "real", "slow")])
    return result


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds, for tests that loop over them; tests with an argument ``seed`` run once per seed instead."""
    return _seeds(request.config)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions of tests run."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def soak_minutes(request: pytest.FixtureRequest) -> float:
    """Duration of the long version of the soak."""
    return float(request.config.getoption("--soak-minutes"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Expected results in files beside the test."""
    return Golden(request.path.parent / "golden", write=bool(request.config.getoption("--write-golden")))


_SHARED = pytest.StashKey[RealCluster]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop a worker's shared cluster after the last test of its group: idle, it uses 2.5% of a processor."""
    cluster = item.config.stash.get(_SHARED, None)
    if cluster is None or nextitem is None or not hasattr(item.config, "workerinput"):
        return
    marks = [test_item.get_closest_marker("xdist_group") for test_item in (item, nextitem)]
    uses_cluster, next_uses_cluster = (mark and mark.args[0] == GROUPS["shared"] for mark in marks)
    if uses_cluster and not next_uses_cluster:
        cluster.stop()


@pytest.fixture(scope="session")
def real_cluster(pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A real etcd and kube-apiserver, one for the session. Tests create their own namespaces and users in it."""
    # Tests that request the fixture while they run, and not by an argument, have no skip mark.
    problem = missing_programs()
    if problem:
        pytest.skip(problem)
    cluster = pytestconfig.stash[_SHARED] = RealCluster()
    try:
        yield cluster.start()
    finally:
        cluster.stop()
