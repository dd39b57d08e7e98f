"""The pytest plugin: fixtures around ``pilothouse.testing``. pytest finds it by itself once pilothouse is installed.

``pilothouse``
    A ``Cluster`` in a namespace of its own, on a plane that all tests of the session share.
    CustomResourceDefinitions that the test creates are deleted at its end, with all of their objects. With
    ``@pytest.mark.pilothouse(nodes=1, ...)`` on a plane of its own, with those arguments of ``testing.plane``.
``pilothouse_server``
    The shared plane itself, for what is not in any namespace.
``pilothouse_async``
    For asynchronous tests, under whichever plugin runs them: ``async with pilothouse_async() as cluster``. A plane of
    its own on the test's loop, with the marker's arguments.

Whatever is heavy is imported by the fixtures: pytest loads this module at every start.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from pilothouse.testing.asynchronous import AsyncCluster
    from pilothouse.testing.synchronous import Cluster

with lazy_imports():
    import functools
    import inspect

    from pilothouse.testing import asynchronous, synchronous

_MARK = "pilothouse"
_directories: "tuple[Path, Path] | None" = None
"""pytest's root directory, and the directory in which it was started."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    global _directories  # noqa: PLW0603  # one pytest a process
    _directories = config.rootpath, config.invocation_params.dir
    config.addinivalue_line(
        "markers",
        f"{_MARK}(**settings): a control plane of its own for this test, with these arguments of testing.plane",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Warn of a marker that has no effect: the shared plane is started once, for the first test that needs it."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if (
        item.get_closest_marker(_MARK) is not None
        and "pilothouse_server" in fixtures
        and fixtures.isdisjoint({"pilothouse", "pilothouse_async"})
    ):
        item.warn(
            pytest.PytestWarning(
                f"@pytest.mark.{_MARK} has no effect on pilothouse_server, which all tests share: use the fixture "
                "pilothouse, or pilothouse.testing.plane in a fixture of your own"
            )
        )


def from_invocation_directory(node_id: str) -> str:
    """The id of a test as an argument of pytest in the directory in which it was started: ids begin with a path that is
    relative to the root directory."""
    if _directories is None:
        return node_id
    root, directory = _directories
    path, colons, rest = node_id.partition("::")
    return f"{os.path.relpath(root / path, directory)}{colons}{rest}"


def _settings(request: pytest.FixtureRequest, factory: Callable[..., Any]) -> dict[str, Any] | None:
    """The arguments of the closest marker, for ``factory``, or None without one."""
    marker = request.node.get_closest_marker(_MARK)
    if marker is None:
        return None
    if marker.args:
        pytest.fail(f"@pytest.mark.{_MARK} takes keyword arguments only, got {marker.args!r}", pytrace=False)
    parameters = inspect.signature(factory).parameters
    unknown = [name for name in marker.kwargs if name not in parameters]
    if unknown:
        pytest.fail(
            f"@pytest.mark.{_MARK} has no argument {unknown[0]!r}; there are {', '.join(parameters)}", pytrace=False
        )
    return dict(marker.kwargs)


@pytest.fixture(scope="session")
def pilothouse_server() -> "Iterator[Cluster]":
    """The plane that all tests of the session share, with the default namespace."""
    with synchronous.plane() as cluster:
        yield cluster


@pytest.fixture
def pilothouse(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
    """A cluster for this test: in its own namespace, or with the marker on its own plane."""
    settings = _settings(request, synchronous.plane)
    if settings is not None:
        with synchronous.plane(**settings) as cluster:
            yield cluster
        return
    shared: Cluster = request.getfixturevalue("pilothouse_server")
    with shared.restoring_definitions():
        cluster = shared.new_namespace()
        yield cluster
        # Its objects go in the background, while the next test runs.
        cluster.delete("v1", "Namespace", cluster.namespace)


@pytest.fixture
def pilothouse_async(
    request: pytest.FixtureRequest,
) -> "Callable[..., AbstractAsyncContextManager[AsyncCluster]]":
    """``async_plane`` with the marker's arguments filled in."""
    return functools.partial(asynchronous.async_plane, **(_settings(request, asynchronous.async_plane) or {}))
