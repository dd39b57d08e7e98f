"""The audit log backend: modes, buffers, truncation, and logs that cannot be written."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.apiserver.audit import backend as backend_module
from pilothouse.apiserver.audit.backend import LogBackend
from pilothouse.apiserver.audit.event import (
    AuthenticationMetadata,
    Event,
    ObjectReference,
    UserInfo,
    event_json,
    event_string,
)
from pilothouse.apiserver.audit.metrics import AuditMetrics
from pilothouse.apiserver.audit.options import AuditLogOptions
from pilothouse.env import Env
from pilothouse.env import log_writer as writer_module
from pilothouse.env.log_files import Rotation
from pilothouse.env.log_writer import BatchConfig

pytestmark = pytest.mark.real_loop

EVENT = Event(
    api_version="audit.k8s.io/v1",
    level="RequestResponse",
    audit_id="1234",
    stage="ResponseComplete",
    request_uri="/api/v1/namespaces/default/configmaps?x=%22",
    verb="create",
    user=UserInfo("jane", "7", ("a", "b"), {"scopes": ("x",)}),
    impersonated_user=UserInfo("joe"),
    authentication_metadata=AuthenticationMetadata("impersonate:user-info"),
    source_ips=("10.1.2.3", "127.0.0.1"),
    user_agent="test/1",
    object_ref=ObjectReference("configmaps", "default", "a", "u-1", "", "v1", "12", "status"),
    response_status={"metadata": {}, "code": 201},
    request_object=msgspec.Raw(b'{"kind":"ConfigMap"}'),
    response_object=msgspec.Raw(b'{"kind":"ConfigMap","apiVersion":"v1"}'),
    request_received_timestamp="2026-01-31T12:00:00.120000Z",
    stage_timestamp="2026-01-31T12:00:01.000000Z",
    annotations={"authorization.k8s.io/decision": "allow"},
)
JSON = (
    '{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"1234",'
    '"stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps?x=%22","verb":"create",'
    '"user":{"username":"jane","uid":"7","groups":["a","b"],"extra":{"scopes":["x"]}},'
    '"impersonatedUser":{"username":"joe"},"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},'
    '"sourceIPs":["10.1.2.3","127.0.0.1"],"userAgent":"test/1",'
    '"objectRef":{"resource":"configmaps","namespace":"default","name":"a","uid":"u-1","apiVersion":"v1",'
    '"resourceVersion":"12","subresource":"status"},"responseStatus":{"metadata":{},"code":201},'
    '"requestObject":{"kind":"ConfigMap"},"responseObject":{"kind":"ConfigMap","apiVersion":"v1"},'
    '"requestReceivedTimestamp":"2026-01-31T12:00:00.120000Z","stageTimestamp":"2026-01-31T12:00:01.000000Z",'
    '"annotations":{"authorization.k8s.io/decision":"allow"}}\n'
)
LEGACY = (
    '2026-01-31T12:00:00.12Z AUDIT: id="1234" stage="ResponseComplete" ip="10.1.2.3" method="create" user="jane" '
    'groups="\\"a\\",\\"b\\"" as="joe" asgroups="<lookup>" user-agent="test/1" namespace="default" '
    'uri="/api/v1/namespaces/default/configmaps?x=%22" response="201"'
)
BARE = msgspec.structs.replace(
    EVENT,
    level="Metadata",
    user=UserInfo(),
    impersonated_user=None,
    authentication_metadata=None,
    source_ips=(),
    user_agent="",
    object_ref=None,
    response_status=None,
    request_object=None,
    response_object=None,
    annotations=None,
)


class Sink:
    """A log that takes lines while ``open`` is set, and fails while ``error`` is."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.open = threading.Event()
        self.open.set()
        self.error: OSError | None = None
        self.closed = False
        self._changed = threading.Condition()

    def write(self, line: bytes) -> None:
        self.open.wait()
        if self.error is not None:
            raise self.error
        with self._changed:
            self.lines.append(line)
            self._changed.notify()

    async def until(self, count: int) -> None:
        """Wait until this many lines are written."""

        def wait() -> None:
            with self._changed:
                self._changed.wait_for(lambda: len(self.lines) >= count)

        await asyncio.to_thread(wait)

    def close(self) -> None:
        self.closed = True


class Log:
    """A backend on such a log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.sink = Sink()
        monkeypatch.setattr(backend_module, "open_sink", lambda *_: self.sink)
        self.metrics = AuditMetrics()
        self.backend = LogBackend(Env(), AuditLogOptions(path="log", **options), self.metrics)

    @property
    def errors(self) -> dict[str, float]:
        return {labels[0]: child.value for labels, child in self.metrics.errors.children.items()}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Log]:
    return lambda **options: Log(monkeypatch, **options)


async def test_event_format_is_upstreams(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    for form, text in (("json", JSON), ("legacy", f"{LEGACY}\n")):
        path.unlink(missing_ok=True)
        backend = LogBackend(Env(), AuditLogOptions(path=str(path), format=form), AuditMetrics())
        assert await backend.process_event(EVENT)
        assert path.read_text() == text
        await backend.close()


async def test_unknown_values_are_omitted() -> None:
    assert set(json.loads(event_json(BARE))) == {
        *("kind", "apiVersion", "level", "auditID", "stage", "requestURI", "verb", "user"),
        *("requestReceivedTimestamp", "stageTimestamp"),
    }
    assert event_string(BARE) == (
        '2026-01-31T12:00:00.12Z AUDIT: id="1234" stage="ResponseComplete" ip="<unknown>" method="create" '
        'user="<none>" groups="<none>" as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" '
        'uri="/api/v1/namespaces/default/configmaps?x=%22" response="<deferred>"'
    )


async def test_concurrent_events_are_written_in_order(log: Callable[..., Log]) -> None:
    one = log()
    events = [msgspec.structs.replace(EVENT, audit_id=str(number)) for number in range(500)]
    assert all(await asyncio.gather(*map(one.backend.process_event, events)))
    assert [json.loads(line)["auditID"] for line in one.sink.lines] == [str(number) for number in range(500)]
    await one.backend.close()
    assert one.sink.closed


@pytest.mark.parametrize(("mode", "goes_on"), [("blocking", True), ("blocking-strict", False), ("batch", True)])
async def test_full_disk_is_counted_and_fails_only_strict_requests(
    log: Callable[..., Log], mode: str, goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    one = log(mode=mode)
    one.sink.error = OSError(28, "No space left on device")
    assert [await one.backend.process_event(EVENT) for _ in range(3)] == [goes_on] * 3
    one.sink.error = None if mode != "batch" else one.sink.error
    if mode != "batch":
        assert await one.backend.process_event(EVENT)
        assert len(one.sink.lines) == 1
    await one.backend.close()
    await asyncio.sleep(0)
    assert one.errors == {"log": 3}
    # Each counts, but a log that can't be written does not fill the other one.
    assert caplog.text.count("Error in audit plugin 'log' affecting 1 audit events: No space left on device") == 1


async def test_batch_mode_never_waits_and_drops_what_exceeds_the_buffer(log: Callable[..., Log]) -> None:
    one = log(mode="batch", batch=BatchConfig(buffer_size=10))
    one.sink.open.clear()
    # One line may be with the writer already.
    assert all([await one.backend.process_event(EVENT) for _ in range(111)])
    assert one.errors["buffered"] in (100, 101)
    one.sink.open.set()
    await one.backend.close()
    assert len(one.sink.lines) == 111 - one.errors["buffered"]


async def test_buffer_is_bounded_in_bytes(log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MAX_BYTES", 5 * len(JSON))
    one = log(mode="batch")
    one.sink.open.clear()
    assert all([await one.backend.process_event(EVENT) for _ in range(20)])
    assert one.errors["buffered"] in (14, 15)
    one.sink.open.set()
    await one.backend.close()


async def test_hanging_disk_times_out(log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_WAIT_SECONDS", 0.01)
    one = log(mode="blocking-strict")
    one.sink.open.clear()
    assert not await one.backend.process_event(EVENT)
    assert one.errors == {"log": 1}
    one.sink.open.set()
    await one.backend.close()
    # It was only late.
    assert len(one.sink.lines) == 1


async def test_closed_backend_drops_events(log: Callable[..., Log]) -> None:
    one = log(mode="blocking-strict")
    await one.backend.close()
    assert one.sink.closed
    assert not await one.backend.process_event(EVENT)
    assert one.errors == {"log": 1}


async def test_batches_are_written_when_full_or_at_the_end(log: Callable[..., Log]) -> None:
    one = log(mode="batch", batch=BatchConfig(max_batch_size=3, max_batch_wait=3600.0))
    for _ in range(4):
        await one.backend.process_event(EVENT)
    await one.sink.until(3)
    assert len(one.sink.lines) == 3
    await one.backend.close()
    assert len(one.sink.lines) == 4


async def test_batches_are_throttled_until_the_log_is_closed(log: Callable[..., Log]) -> None:
    one = log(mode="batch", throttle=True, batch=BatchConfig(throttle_qps=0.0001, throttle_burst=2))
    for _ in range(5):
        await one.backend.process_event(EVENT)
    await one.sink.until(2)
    assert len(one.sink.lines) == 2
    await one.backend.close()
    assert len(one.sink.lines) == 5


async def test_large_events_are_truncated_or_dropped(log: Callable[..., Log]) -> None:
    one = log(truncate=True, truncate_max_event_size=1200)
    large = msgspec.structs.replace(EVENT, request_object=msgspec.Raw(b'"' + b"x" * 1000 + b'"'))
    await one.backend.process_event(EVENT)
    await one.backend.process_event(large)
    await one.backend.process_event(msgspec.structs.replace(EVENT, user_agent="x" * 1200))
    # Of a Metadata event nothing could be left out.
    await one.backend.process_event(msgspec.structs.replace(BARE, user_agent="x" * 1200))
    await one.backend.close()
    whole, truncated = map(json.loads, one.sink.lines)
    assert "requestObject" in whole
    assert "requestObject" not in truncated
    assert "responseObject" not in truncated
    assert truncated["annotations"] == {"audit.k8s.io/truncated": "true", "authorization.k8s.io/decision": "allow"}
    assert one.errors == {"truncate": 2}


@pytest.mark.parametrize(
    ("options", "errors"),
    [
        ({}, []),
        (
            {"mode": "later"},
            ['invalid audit log mode later, allowed modes are "batch,blocking,blocking-strict"'],
        ),
        ({"batch": BatchConfig(buffer_size=0)}, []),
        (
            {"mode": "batch", "batch": BatchConfig(buffer_size=0)},
            ["invalid audit batch log buffer size 0, must be a positive number"],
        ),
        (
            {"mode": "batch", "batch": BatchConfig(max_batch_size=-1)},
            ["invalid audit batch log max batch size -1, must be a positive number"],
        ),
        (
            {"mode": "batch", "throttle": True},
            ["invalid audit batch log throttle QPS 0, must be a positive number"],
        ),
        (
            {"mode": "batch", "throttle": True, "batch": BatchConfig(throttle_qps=0.5)},
            ["invalid audit batch log throttle burst 0, must be a positive number"],
        ),
        (
            {"truncate_max_event_size": 0},
            ["invalid audit truncate log max event size 0, must be a positive number"],
        ),
        (
            {"truncate_max_batch_size": 10, "truncate_max_event_size": 11},
            ["invalid audit truncate log max batch size 10, must be greater than max event size (11)"],
        ),
        ({"version": "audit.k8s.io/v1beta1"}, ['invalid group version, allowed versions are ["audit.k8s.io/v1"]']),
        ({"format": "xml"}, ['invalid audit log format xml, allowed formats are "legacy,json"']),
        (
            {"rotation": Rotation(-1, -2, -3)},
            [
                "--audit-log-maxage -2 can't be a negative number",
                "--audit-log-maxbackup -3 can't be a negative number",
                "--audit-log-maxsize -1 can't be a negative number",
            ],
        ),
    ],
)
async def test_options_validation_errors_are_upstreams(options: dict[str, Any], errors: list[str]) -> None:
    assert AuditLogOptions(path="log", **options).errors() == errors
    assert AuditLogOptions(**options).errors() == []
