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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pilothouse.testing.asynchronous import AsyncCluster
    from pilothouse.testing.synchronous import Cluster

with lazy_imports():
    import functools
    import inspect

    from pilothouse.testing import asynchronous, synchronous

_MARK = "pilothouse"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}(**settings): a control plane of its own for this test, with these arguments of testing.plane",
    )


def _settings(request: pytest.FixtureRequest, factory: Callable[..., Any]) -> dict[str, Any] | None:
    """The arguments of the closest marker, for ``factory``, or None without one."""
    marker = request.node.get_closest_marker(_MARK)
    if marker is None:
        return None
    if marker.args:
        pytest.fail(f"@pytest.mark.{_MARK} takes keyword arguments only, got {marker.args!r}")
    parameters = inspect.signature(factory).parameters
    unknown = [name for name in marker.kwargs if name not in parameters]
    if unknown:
        pytest.fail(f"@pytest.mark.{_MARK} has no argument {unknown[0]!r}; there are {', '.join(parameters)}")
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
