"""The decision log: which writes are logged, the format of a line, and write failures."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.core import CONFIG_MAPS, EVENTS, PODS
from pilothouse.apiserver import ApiServer
from pilothouse.client import Client, merge_patch
from pilothouse.client.decision_log import DecisionLog
from pilothouse.client.errors import AlreadyExists
from pilothouse.env import Env, log_files, log_writer
from pilothouse.env.log_files import Rotation
from pilothouse.machinery.causes import Triggers, begin_sync, record_decision
from pilothouse.machinery.metrics import Registry
from pilothouse.storage import MemoryStore

pytestmark = pytest.mark.real_loop  # the log is written by a thread


class LoggedClient:
    """An API server in this process, a client, and its decision log."""

    def __init__(self, env: Env, directory: Path) -> None:
        self.path = directory / "decisions.log"
        self.metrics = Registry()
        self.log = DecisionLog(env, str(self.path), Rotation(), self.metrics)
        self.server = ApiServer(env, MemoryStore(env))
        self.transport = self.log.wrap(self.server.transport("admin", ("system:masters",)))
        self.client = Client(self.transport, env, user_agent="tests/1")

    async def lines(self) -> list[dict[str, Any]]:
        await self.log.close()
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
async def logged(env: Env, tmp_path: Path) -> AsyncIterator[LoggedClient]:
    log = LoggedClient(env, tmp_path)
    yield log
    await log.log.close()
    await log.server.close()


def config_map(**metadata: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"password": "hunter2"}}


def as_controller(decision: str) -> None:
    triggers = Triggers()
    triggers.add("ADDED", "configmaps")
    begin_sync("web-controller", "default/web", triggers)
    record_decision(decision)


async def test_line_has_write_and_cause(logged: LoggedClient) -> None:
    as_controller("wants 1, has 0: „web“ is missing")
    raw = await logged.client.create(CONFIG_MAPS.raw, config_map(generateName="web-"), "default")
    metadata = json.loads(bytes(raw))["metadata"]
    record_decision("deleting it again")
    await logged.client.delete(CONFIG_MAPS, metadata["name"], "default")
    first, second = await logged.lines()
    assert first.pop("time").endswith("Z")
    assert first == {
        "verb": "create",
        "resource": "configmaps",
        "namespace": "default",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "code": 201,
        "userAgent": "tests/1",
        "cause": {
            "component": "web-controller",
            "key": "default/web",
            "decision": "wants 1, has 0: „web“ is missing",
            "triggers": [{"type": "ADDED", "resource": "configmaps"}],
        },
    }
    assert (second["verb"], second["name"], second["uid"]) == ("delete", metadata["name"], metadata["uid"])
    assert second["cause"]["decision"] == "deleting it again"


async def test_object_values_are_not_logged(logged: LoggedClient) -> None:
    await logged.client.create(CONFIG_MAPS.raw, config_map(name="web"), "default")
    await logged.client.patch(CONFIG_MAPS, "web", merge_patch({"data": {"password": "hunter2!"}}), "default")
    assert len(await logged.lines()) == 2
    assert "hunter2" not in logged.path.read_text()


async def test_rejected_write_is_logged_with_its_reason(logged: LoggedClient) -> None:
    await logged.client.create(CONFIG_MAPS.raw, config_map(name="web"), "default")
    with pytest.raises(AlreadyExists):
        await logged.client.create(CONFIG_MAPS.raw, config_map(name="web"), "default")
    _made, rejected = await logged.lines()
    assert (rejected["code"], rejected["reason"]) == (409, "AlreadyExists")
    assert rejected["message"] == 'configmaps "web" already exists'
    assert "uid" not in rejected
    assert "cause" not in rejected


async def test_reads_events_renewals_reviews_and_dry_runs_are_not_logged(logged: LoggedClient) -> None:
    client = logged.client
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    created = json.loads((await client.request("POST", path, body=json.dumps(lease).encode())).body)
    renewed = json.dumps(created | {"spec": {"holderIdentity": "a"}}).encode()
    await client.request("PUT", f"{path}/l", body=renewed)
    for target in (
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/api/v1/namespaces/default/serviceaccounts/a/token",
    ):
        logged.log.add(wire.Request("POST", target), wire.Response(201))
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    await client.create(EVENTS.raw, event, "default")
    await client.create(CONFIG_MAPS.raw, config_map(name="dry"), "default", dry_run=True)
    await client.list(PODS.raw, "default")
    assert [(line["verb"], line["resource"]) for line in await logged.lines()] == [("create", "leases")]


class Failing:
    """A transport on which each request ends in the same way."""

    def __init__(self, failure: BaseException) -> None:
        self._failure = failure

    async def request(self, request: wire.Request) -> wire.Response:
        raise self._failure

    async def open(self, request: wire.Request) -> wire.Stream:
        raise self._failure

    async def close(self) -> None:
        pass


@cases(
    "failure, message",
    {
        "a connection that breaks": (ConnectionResetError("reset by peer"), "reset by peer"),
        "timeout": (TimeoutError(), "TimeoutError"),
        "cancelled by the caller": (asyncio.CancelledError(), "the request was cancelled before the answer came"),
    },
)
async def test_undecided_write_is_logged_without_a_code(
    env: Env, tmp_path: Path, failure: BaseException, message: str
) -> None:
    log = DecisionLog(env, str(tmp_path / "log"), Rotation())
    with pytest.raises(type(failure)):
        await log.wrap(Failing(failure)).request(wire.Request("DELETE", "/api/v1/namespaces/a/pods/b"))
    await log.close()
    (line,) = [json.loads(text) for text in (tmp_path / "log").read_text().splitlines()]
    assert line["message"] == message
    assert "code" not in line
    assert (line["verb"], line["namespace"], line["name"]) == ("delete", "a", "b")


async def test_full_disk_drops_lines_and_fails_no_writes(
    logged: LoggedClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await logged.client.create(CONFIG_MAPS.raw, config_map(name="a"), "default")
    await _until(lambda: logged.path.exists() and logged.path.read_bytes().endswith(b"\n"))

    def full(_self: object, _line: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(log_files.RotatedFile, "write", full)
        for name in "bcd":
            await logged.client.create(CONFIG_MAPS.raw, config_map(name=name), "default")
        await _until(lambda: logged.log.dropped == 3)
    await logged.client.create(CONFIG_MAPS.raw, config_map(name="e"), "default")
    assert [line["name"] for line in await logged.lines()] == ["a", "e"]
    exposition = logged.metrics.exposition()
    assert "pilothouse_decision_log_lines_total 5" in exposition
    assert "pilothouse_decision_log_dropped_lines_total 3" in exposition
    assert "No space left on device" in caplog.text


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it took more than ten seconds")


async def test_lines_over_the_buffer_are_dropped_and_counted(
    logged: LoggedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_BYTES", 10)
    await logged.client.create(CONFIG_MAPS.raw, config_map(name="a"), "default")
    assert await logged.lines() == []
    assert logged.log.dropped == 1


async def test_the_log_is_rotated_between_lines(env: Env, tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = DecisionLog(env, str(path), Rotation(max_megabytes=1, max_backups=2))
    transport = log.wrap(Answering())
    for number in range(12_000):
        await transport.request(wire.Request("DELETE", f"/api/v1/namespaces/{'n' * 200}/pods/pod-{number}"))
    await log.close()
    sink = log._writer._sink
    assert isinstance(sink, log_files.RotatedFile)
    sink.wait()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert all(item.stat().st_size <= 1024 * 1024 for item in files)
    names = [json.loads(line)["name"] for item in files for line in item.read_text().splitlines()]
    numbers = sorted(int(name.removeprefix("pod-")) for name in names)
    assert numbers == list(range(numbers[0], 12_000))
    assert log.dropped == 0


class Answering:
    """A transport on which each request is answered with a Status."""

    async def request(self, request: wire.Request) -> wire.Response:
        return wire.Response(200, {}, b'{"kind":"Status","apiVersion":"v1","details":{"uid":"u"}}')

    async def open(self, request: wire.Request) -> wire.Stream:
        raise AssertionError(f"nothing is watched here: {request.target}")

    async def close(self) -> None:
        pass


@cases(
    "body, expected",
    {
        "a status of a deletion": (b'{"kind":"Status","details":{"name":"b","uid":"u"}}', ("b", "u", "")),
        "an object": (b'{"kind":"Pod","metadata":{"name":"b","uid":"u","resourceVersion":"7"}}', ("b", "u", "7")),
        "a list": (b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}', ("b", "", "7")),
        "not JSON": (b"k8s\x00\x0a", ("b", "", "")),
        "a status without details": (b'{"kind":"Status"}', ("b", "", "")),
        "empty body": (b"", ("b", "", "")),
    },
)
async def test_responses_of_any_encoding_are_decoded(
    env: Env, tmp_path: Path, body: bytes, expected: tuple[str, str, str]
) -> None:
    log = DecisionLog(env, str(tmp_path / "log"), Rotation())
    log.add(wire.Request("DELETE", "/api/v1/namespaces/a/pods/b"), wire.Response(200, {}, body))
    await log.close()
    line = json.loads((tmp_path / "log").read_text())
    assert (line["name"], line.get("uid", ""), line.get("resourceVersion", "")) == expected
