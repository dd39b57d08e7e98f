"""An API server with scripted responses that records a transcript, for tests of exact exchanges.

Everything that does not depend on a particular misbehaviour is tested on the real API server instead.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import msgspec

from pilothouse.api import wire
from pilothouse.client.errors import ConnectionLost, ConnectionRefused
from pilothouse.env import Env


def pod(
    name: str, version: int | str, *, namespace: str = "default", uid: str = "", **metadata: object
) -> dict[str, object]:
    """A pod as JSON."""
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        **metadata,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}}


@dataclass(frozen=True)
class Reply:
    """A complete response."""

    status: int
    body: bytes


@dataclass(frozen=True)
class Streamed:
    """A watch response: lines, pauses in seconds, and its end."""

    steps: tuple["bytes | float", ...]
    end: str = "hang"


@dataclass(frozen=True)
class Raised:
    """No response."""

    error: Callable[[], Exception]


Scripted = Reply | Streamed | Raised


def listed(version: int | str, *items: Mapping[str, object], more: str = "") -> Reply:
    """A list, or a page of one when ``more`` is its continue token."""
    meta = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return Reply(200, msgspec.json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": items}))


def refused(code: int, reason: str, message: str = "", *, cause: str = "") -> Reply:
    """A Status."""
    status: dict[str, object] = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    }  # fmt: skip
    if cause:
        status["details"] = {"causes": [{"reason": cause, "message": message}]}
    return Reply(code, msgspec.json.encode(status))


NO_STREAMS = refused(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")  # fmt: skip  # noqa: E501
EXPIRED = refused(410, "Expired", "The resourceVersion for the provided list is too old.")
REFUSED_CONNECTION = Raised(lambda: ConnectionRefused("connection refused"))


def event(type_: str, obj: Mapping[str, object]) -> bytes:
    """A line of a watch."""
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


def added(obj: Mapping[str, object]) -> bytes:
    """An ADDED line."""
    return event("ADDED", obj)


def modified(obj: Mapping[str, object]) -> bytes:
    """A MODIFIED line."""
    return event("MODIFIED", obj)


def deleted(obj: Mapping[str, object]) -> bytes:
    """A DELETED line."""
    return event("DELETED", obj)


def bookmark(version: int | str, *, ends_initial: bool = False) -> bytes:
    """A BOOKMARK line."""
    meta: dict[str, object] = {"resourceVersion": str(version)}
    if ends_initial:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": meta})


def failing(code: int, reason: str) -> bytes:
    """An ERROR line."""
    return event("ERROR", msgspec.json.decode(refused(code, reason).body))


def watched(*steps: "bytes | float", end: str = "hang") -> Streamed:
    """A watch with ``steps``, which then hangs, ``end``s or is ``lost``."""
    return Streamed(steps, end)


class ScriptedServer:
    """A ``wire.Transport``. ``transcript`` says what was asked, with the pauses between the requests.

    A pause is written as the backoff step it belongs to: ``pause 0.8`` is any from 0.8 up to 1.6 s, ``pause 25.6`` any
    longer one.
    When the script is over, further requests hang.
    """

    def __init__(self, env: Env, script: Sequence[Scripted]) -> None:
        self._env = env
        self._script = list(script)
        self._quiet_since = 0.0
        self.transcript: list[str] = []
        self.timeouts: list[int] = []
        self.bodies: list[bytes] = []
        self.requests: list[wire.Request] = []

    async def request(self, request: wire.Request) -> wire.Response:
        answer = await self._next(request)
        assert isinstance(answer, Reply), f"the script has a watch where {request.target} was asked"
        return wire.Response(answer.status, {"content-type": "application/json"}, answer.body)

    async def open(self, request: wire.Request) -> wire.Stream:
        answer = await self._next(request)
        if isinstance(answer, Streamed):
            return _Playing(200, answer, self._mark)
        return _Playing(answer.status, Streamed((answer.body,), "end"), self._mark)

    async def close(self) -> None:
        return None

    def _mark(self) -> None:
        self._quiet_since = self._env.monotonic()

    async def _next(self, request: wire.Request) -> "Reply | Streamed":
        self.requests.append(request)
        pause = self._env.monotonic() - self._quiet_since
        if pause > 0.01:
            step = 0.8
            while pause >= 2 * step and step < 25.6:
                step *= 2
            self.transcript.append(f"pause {step:g}" if pause >= step else f"wait {pause:.1f}")
        self.transcript.append(self._described(request))
        await asyncio.sleep(0)
        if not self._script:
            await asyncio.get_running_loop().create_future()
        answer = self._script.pop(0)
        self._mark()
        if isinstance(answer, Raised):
            raise answer.error()
        return answer

    def _described(self, request: wire.Request) -> str:
        url = urlsplit(request.target)
        query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        if request.method != "GET":
            self.bodies.append(request.body)
            return f"{request.method} {url.path}"
        if query.get("watch"):
            self.timeouts.append(int(query["timeoutSeconds"]))
            assert query["allowWatchBookmarks"] == "true"
            if "sendInitialEvents" in query:
                assert query["resourceVersionMatch"] == "NotOlderThan"
                return f"STREAM rv={query.get('resourceVersion', '')}"
            return f"WATCH rv={query.get('resourceVersion', '')}"
        parts = [f"LIST rv={query.get('resourceVersion', '')}"]
        parts += [f"{key}={query[key]}" for key in ("limit", "continue") if key in query]
        return " ".join(parts) if url.path.count("/") <= 5 and "pods" in url.path else f"GET {request.target}"


class _Playing:
    def __init__(self, status: int, script: Streamed, on_end: Callable[[], None]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._script = script
        self._on_end = on_end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self._script.steps:
            if isinstance(step, bytes):
                self._on_end()
                yield step
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(step)
        if self._script.end == "hang":
            await asyncio.get_running_loop().create_future()
        self._on_end()
        if self._script.end == "lost":
            raise ConnectionLost("connection reset by peer")

    async def close(self) -> None:
        return None
