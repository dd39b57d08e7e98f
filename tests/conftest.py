"""What all tests share: coroutine tests, the real cluster, which tests are slow, and how many seeds are tried."""

import contextlib
import functools
import gc
import os
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

# gRPC's handlers of fork end the child (SIGABRT) where another thread uses gRPC at that moment, and ``preexec_fn`` of
# ``tests.programs`` needs a fork. Nothing here uses gRPC in a forked child. Before gRPC is imported.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# Of every kubectl that inherits it: a fifth of the processor time of most was the collection of what ends with it.
os.environ.setdefault("GOGC", GOGC)

# How long one example takes says more about what else runs on the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

_NONE = SimpleNamespace(params={})


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seeds N`` and ``--soak``: one seed in ``make test``, full counts in ``make explore`` and ``make soak``.

    Else a second seed is tried of a third of the simulations, of other ones with each commit.
    """
    group = parser.getgroup("pilothouse")
    group.addoption("--seeds", type=int, help="how many seeds each simulation is tried with (default 1; a third 2)")
    group.addoption("--seed", default="", help="only this seed, or these: 17 or 300-599")
    group.addoption("--recorded", default="", help="play one recorded scenario, and print it: 17; or many: 1-99")
    group.addoption("--write-golden", action="store_true", help="write the files in golden/ from what tests find")
    group.addoption("--soak", action="store_true", help="run the long versions of tests that have one")
    group.addoption("--soak-minutes", type=float, default=30, help="how long the soak itself then takes (default 30)")
    group.addoption(
        "--store", choices=stores.KINDS, default="memory", help="what API servers of tests store in (default memory)"
    )
    group.addoption("--kills", type=int, default=100, help="how often each program is killed in the soak (default 100)")


def pytest_configure(config: pytest.Config) -> None:
    """What all servers store in."""
    stores.choose(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a ``seed`` argument runs once per seed, unless it names its seeds."""
    named = any("seed" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "seed" in metafunc.fixturenames and not named:
        seeds = _seeds(metafunc.config)
        asked = metafunc.config.getoption("--seeds") or metafunc.config.getoption("--seed")
        metafunc.parametrize("seed", seeds if asked or _is_due(metafunc.definition.nodeid) else seeds[:1])


_PART = 3


def _is_due(nodeid: str) -> bool:
    """Whether it is this test's turn to be tried with a second seed: after so many commits, each has had it."""
    return (zlib.crc32(nodeid.encode()) + _commits()) % _PART == 0


@functools.cache
def _commits() -> int:
    """How many the repository has: few in a shallow clone, none where there is no repository."""
    command = ["git", "rev-list", "--count", "HEAD"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        return int(subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True).stdout)
    return 0


_FEW = 2
_LONGEST_ID = 200


def pytest_make_parametrize_id(val: object) -> str | None:
    """A text of a megabyte would be a name of a megabyte, which goes through every report of the test."""
    if isinstance(val, str) and len(val) > _LONGEST_ID:
        return f"{val[:50].encode('unicode_escape').decode()} ({len(val)} characters)"
    return None


def _seeds(config: pytest.Config) -> range:
    chosen: str = config.getoption("--seed")
    if not chosen:
        return range(config.getoption("--seeds") or _FEW)
    first, _dash, last = chosen.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the tests out of Python's collector.

    17,000 tests and what they import are a million objects that stay to the end: the collector looks at them while
    they come, which takes a fifth of the time, and again and again while tests run.
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
    """A failing seed prints the command that replays it."""
    report = yield
    if report.failed and isinstance(item, pytest.Function) and "seed" in getattr(item, "callspec", _NONE).params:
        seed = item.callspec.params["seed"]
        name = item.originalname
        target = "explore" if "/scenarios/" in item.nodeid or "/determinism/" in item.nodeid else "test-all"
        report.sections.append(("replay", f'make {target} ARGS="-k {name} --seed {seed}"'))
    return report


GROUPS = {"shared": "the real cluster", "own": "clusters of their own", "none": None}
"""By what ``pytest.mark.real(cluster=…)`` says; the cluster that all share needs no word.

With ``--dist loadgroup`` a group is one worker's. So two modules with clusters run at a time: more would fight for the
processors, and what happens within a second elsewhere then takes ten.
"""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, object, object]:
    """Tests on the real cluster are marked so, skipped with the reason when there is none, and kept on one worker.

    Tests in ``clients`` are slow: each module starts a ``pilothouse up`` for programs that talk to it.
    """
    problem = missing_programs()
    for item in items:
        if (mark := item.get_closest_marker("not_on")) and stores.chosen in mark.args:
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
            # The tests of a module share its programs, and some follow one another.
            item.add_marker(pytest.mark.slow)
            group = item.path.name
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    result = yield  # directories mark their own
    # What has to stay together takes longest and mostly waits: begun last, one worker would sit idle beside it. Other
    # long tests are begun before short ones for the same reason.
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in ("xdist_group", "real", "slow")])
    return result


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds to try, for tests that loop over them; tests with an argument ``seed`` run once per seed instead."""
    return _seeds(request.config)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions were asked for."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def soak_minutes(request: pytest.FixtureRequest) -> float:
    """How long the long version of the soak takes."""
    return float(request.config.getoption("--soak-minutes"))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Answers kept in files beside the test."""
    return Golden(request.path.parent / "golden", write=bool(request.config.getoption("--write-golden")))


_SHARED = pytest.StashKey[RealCluster]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The shared cluster of a worker ends with the group: idle, it would take a fortieth of a processor to the end."""
    cluster = item.config.stash.get(_SHARED, None)
    if cluster is None or nextitem is None or not hasattr(item.config, "workerinput"):
        return
    groups = [each.get_closest_marker("xdist_group") for each in (item, nextitem)]
    here, there = (mark and mark.args[0] == GROUPS["shared"] for mark in groups)
    if here and not there:
        cluster.stop()


@pytest.fixture(scope="session")
def real_cluster(pytestconfig: pytest.Config) -> Iterator[RealCluster]:
    """A real etcd and kube-apiserver, one for the session. Tests make their own namespaces and users in it."""
    # Tests that ask for it while they run, and not by an argument, carry no mark to be skipped by.
    problem = missing_programs()
    if problem:
        pytest.skip(problem)
    cluster = pytestconfig.stash[_SHARED] = RealCluster()
    try:
        yield cluster.start()
    finally:
        cluster.stop()
