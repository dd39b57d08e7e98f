"""Durations and times at the limits of their fields: no controller and no node fails."""

import asyncio
import copy
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pilothouse.client.errors import BadRequest, Conflict, Invalid, NotFound
from pilothouse.sim import Simulation, SimulationOptions

Doc = dict[str, Any]

LARGEST = 2**63 - 1
SECONDS = (-(2**63), -1, 0, 2**31 - 1, 9_223_372_036, 9_223_372_037, LARGEST)
TIMES = ("0001-01-02T00:00:00Z", "1677-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
SPEC: Doc = {"containers": [{"name": "c", "image": "i"}]}
ONCE: Doc = {**SPEC, "restartPolicy": "Never"}
KINDS: dict[str, tuple[str, Doc]] = {
    "pods": ("/api/v1", {"spec": SPEC}),
    "jobs": ("/apis/batch/v1", {"spec": {"template": {"spec": ONCE}}}),
    "cronjobs": (
        "/apis/batch/v1",
        {"spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": {"spec": ONCE}}}}},
    ),
    "resourcequotas": ("/api/v1", {"spec": {"hard": {"pods": "1000"}}}),
}
FIELDS = (
    ("pods", ("spec", "terminationGracePeriodSeconds"), SECONDS),
    ("pods", ("spec", "activeDeadlineSeconds"), SECONDS),
    ("pods", ("spec", "tolerations"), [[{"operator": "Exists", "tolerationSeconds": item}] for item in SECONDS]),
    ("jobs", ("spec", "activeDeadlineSeconds"), SECONDS),
    ("jobs", ("spec", "ttlSecondsAfterFinished"), SECONDS),
    ("cronjobs", ("spec", "startingDeadlineSeconds"), SECONDS),
    ("cronjobs", ("status", "lastScheduleTime"), TIMES),
    ("jobs", ("status", "startTime"), TIMES),
    ("pods", ("status", "startTime"), TIMES),
)


class Tracebacks(logging.Handler):
    """Keeps log records with an exception."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


@pytest.fixture
def tracebacks() -> Iterator[list[str]]:
    handler = Tracebacks()
    root = logging.getLogger("pilothouse")
    root.addHandler(handler)
    yield handler.found
    root.removeHandler(handler)


async def _request(simulation: Simulation, method: str, path: str, body: Doc | None = None) -> Doc:
    encoded = b"" if body is None else msgspec.json.encode(body)
    answer = await simulation.user.request(method, path, body=encoded, headers={"content-type": "application/json"})
    document: Doc = msgspec.json.decode(answer.body)
    return document


async def _is_created(simulation: Simulation, kind: str, path: tuple[str, str], value: Any, name: str) -> bool:
    """Whether the server accepts the object."""
    prefix, sample = KINDS[kind]
    target = f"{prefix}/namespaces/numbers/{kind}"
    obj = {"metadata": {"name": name}, **copy.deepcopy(sample)}
    obj.setdefault(path[0], {})[path[1]] = value
    try:
        created = await _request(simulation, "POST", target, obj)
        if path[0] == "status":
            await _request(simulation, "PUT", f"{target}/{name}/status", {**created, "status": obj["status"]})
    except (BadRequest, Conflict, Invalid):
        return False
    return True


@pytest.mark.simulation(seed=1, options=SimulationOptions(nodes=2))
async def test_controllers_and_nodes_accept_any_seconds(simulation: Simulation, tracebacks: list[str]) -> None:
    await simulation.wait_ready()
    await _request(simulation, "POST", "/api/v1/namespaces", {"metadata": {"name": "numbers"}})
    await _is_created(simulation, "resourcequotas", ("spec", "hard"), {"pods": "1000"}, "q")
    await asyncio.sleep(5)
    accepted = 0
    for row, (kind, path, values) in enumerate(FIELDS):
        for column, value in enumerate(values):
            accepted += await _is_created(simulation, kind, path, value, f"n{row}-{column}")
    assert accepted > 25
    await asyncio.sleep(2 * 3600)
    await _request(simulation, "DELETE", "/api/v1/namespaces/numbers")
    await asyncio.sleep(3600)
    with pytest.raises(NotFound):
        await _request(simulation, "GET", "/api/v1/namespaces/numbers")
    assert tracebacks == []
