"""What all tests share: the real cluster, and how many seeds are tried."""

from collections.abc import Iterator

import pytest
from tests.real_cluster import RealCluster, missing_programs


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seeds N`` and ``--soak``: the full counts, for ``make explore`` and ``make soak``."""
    group = parser.getgroup("pilothouse")
    group.addoption("--seeds", type=int, default=5, help="how many seeds each simulation is tried with (default 5)")
    group.addoption("--soak", action="store_true", help="run the long versions of tests that have one")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with a ``seed`` argument runs once per seed."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--seeds")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the real cluster are marked so, skipped with the reason when there is none, and kept on one worker."""
    problem = missing_programs()
    for item in items:
        if "real_cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)
            # With ``--dist loadgroup`` the whole run starts one cluster; with other modes one per worker.
            item.add_marker(pytest.mark.xdist_group("real"))
            if problem:
                item.add_marker(pytest.mark.skip(reason=problem))


@pytest.fixture(scope="session")
def seeds(request: pytest.FixtureRequest) -> range:
    """The seeds to try, for tests that loop over them; tests with an argument ``seed`` run once per seed instead."""
    return range(request.config.getoption("--seeds"))


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions were asked for."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[RealCluster]:
    """A real etcd and kube-apiserver, one for the session. Tests make their own namespaces and users in it."""
    # Tests that ask for it while they run, and not by an argument, carry no mark to be skipped by.
    problem = missing_programs()
    if problem:
        pytest.skip(problem)
    cluster = RealCluster()
    try:
        yield cluster.start()
    finally:
        cluster.stop()
