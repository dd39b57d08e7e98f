"""Requests of the reflector and their times: transcripts in virtual time, as in client-go's
``tools/cache/wait_test.go``.

On the left what the server does, on the right every request that follows from it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.runtime.scripted import (
    EXPIRED,
    NO_STREAMS,
    REFUSED_CONNECTION,
    Scripted,
    ScriptedServer,
    added,
    bookmark,
    deleted,
    failing,
    listed,
    modified,
    pod,
    refused,
    watched,
)
from tests.tables import cases

from pilothouse.api.core import PODS, Pod
from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.runtime import SharedInformer
from pilothouse.runtime.reflector import Backoff


class RecordingHandler:
    """A handler that records its notifications."""

    def __init__(self, informer: SharedInformer[Pod] | None = None) -> None:
        self.lines: list[str] = []
        self.informer = informer

    def add(self, obj: Pod, initial: bool) -> None:
        self.lines.append(f"add {_name_and_version(obj)}{' initial' if initial else ''}{self._cached()}")

    def update(self, old: Pod, new: Pod) -> None:
        self.lines.append(f"update {_name_and_version(old)} -> {_name_and_version(new)}{self._cached()}")

    def delete(self, obj: Pod, final_state_unknown: bool) -> None:
        self.lines.append(f"delete {_name_and_version(obj)}{' unknown' if final_state_unknown else ''}{self._cached()}")

    def _cached(self) -> str:
        if self.informer is None:
            return ""
        return " | " + " ".join(_name_and_version(p) for p in self.informer.cache.list())


def _name_and_version(obj: Pod) -> str:
    return f"{obj.metadata.name}@{obj.metadata.resource_version}"


async def play(
    env: Env, script: Sequence[Scripted], *, stream: bool = False, seconds: float = 250.0
) -> tuple[ScriptedServer, RecordingHandler, SharedInformer[Pod]]:
    """Run an informer against the script for some virtual time."""
    server = ScriptedServer(env, script)
    client = Client(server, env)
    informer: SharedInformer[Pod] = SharedInformer(client, env, PODS, stream_first=stream)
    handled = RecordingHandler()
    informer.add_handler(handled.add, handled.update, handled.delete)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(seconds)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return server, handled, informer


A1, B1 = pod("a", 1), pod("b", 3)
TOO_LARGE = refused(504, "Timeout", "Too large resource version: 9, current: 5", cause="ResourceVersionTooLarge")
TOO_LARGE_OLD = refused(504, "Timeout", "Too large resource version: 9, current: 5", cause="Unknown")
CLOSED_410 = watched(failing(410, "Expired"), end="end")
FIRST = "LIST rv=0 limit=500"
BUSY = refused(429, "TooManyRequests", "busy")


@cases(
    "script, transcript",
    {
        "first list at resourceVersion 0, then watch": (
            [listed(5, A1), watched()],
            [FIRST, "WATCH rv=5"]),
        "relist at the last resourceVersion, without limit": (
            [listed(5, A1), CLOSED_410, listed(8, A1), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "WATCH rv=8"]),
        "expired resourceVersion: list of the newest": (
            [listed(5), CLOSED_410, EXPIRED, listed(9), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "LIST rv= limit=500", "WATCH rv=9"]),
        "resourceVersion too large: list of the newest": (
            [listed(5), CLOSED_410, TOO_LARGE, listed(4), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "LIST rv= limit=500", "WATCH rv=4"]),
        "resourceVersion too large, by old servers": (
            [listed(5), CLOSED_410, TOO_LARGE_OLD, listed(4), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "LIST rv= limit=500", "WATCH rv=4"]),
        "newest until a list succeeds": (
            [listed(5), CLOSED_410, EXPIRED, refused(500, "InternalError"), listed(9), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "LIST rv= limit=500",
             "pause 1.6", "LIST rv= limit=500", "WATCH rv=9"]),
        "expired continue token: full list at the initial resourceVersion": (
            [listed(5, A1, more="next"), EXPIRED, listed(7, A1, B1), watched()],
            [FIRST, "LIST rv= limit=500 continue=next", "LIST rv=0", "WATCH rv=7"]),
        "resourceVersion of the first page; paginated from then on": (
            [listed(5, A1, more="next"), listed(6, B1), CLOSED_410, listed(9), watched()],
            [FIRST, "LIST rv= limit=500 continue=next", "WATCH rv=5", "pause 0.8",
             "LIST rv=5 limit=500", "WATCH rv=9"]),
        "a bookmark advances the version of the next watch": (
            [listed(5, A1), watched(bookmark(40), 2.0, end="end"), watched()],
            [FIRST, "WATCH rv=5", "WATCH rv=40"]),
        "a watch that ends normally is opened again at once, without a list": (
            [listed(5, A1), watched(200.0, end="end"), watched(modified(pod("a", 8)), end="end"), watched()],
            [FIRST, "WATCH rv=5", "WATCH rv=5", "WATCH rv=8"]),
        "a very short and empty watch is followed by a pause and a list": (
            [listed(5, A1), watched(0.5, end="end"), listed(6, A1), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "WATCH rv=6"]),
        "a broken connection is an end like any other": (
            [listed(5, A1), watched(modified(pod("a", 6)), 0.5, end="lost"), watched()],
            [FIRST, "WATCH rv=5", "WATCH rv=6"]),
        "429: watch again after a backoff": (
            [listed(5), BUSY, BUSY, watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "WATCH rv=5", "pause 1.6", "WATCH rv=5"]),
        "connection refused: watch again after a backoff": (
            [listed(5), REFUSED_CONNECTION, watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "WATCH rv=5"]),
        "429 in a stream: watch again after a backoff": (
            [listed(5), watched(1.0, modified(pod("a", 7)), failing(429, "TooManyRequests"), end="end"), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "WATCH rv=7"]),
        "other errors of a watch: list after a backoff": (
            [listed(5), refused(403, "Forbidden"), listed(6), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "WATCH rv=6"]),
        "an internal error in a stream: a pause and a list": (
            [listed(5), watched(2.0, failing(500, "InternalError"), end="end"), listed(6), watched()],
            [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=5", "WATCH rv=6"]),
        "backoff doubles up to 30 s, with jitter": (
            [refused(404, "NotFound")] * 8 + [listed(5), watched()],
            [FIRST, "pause 0.8", FIRST, "pause 1.6", FIRST, "pause 3.2",
             FIRST, "pause 6.4", FIRST, "pause 12.8", FIRST, "pause 25.6",
             FIRST, "pause 25.6", FIRST, "pause 25.6", FIRST, "WATCH rv=5"]),
        "a watch at no version begins with objects in no order: their versions are not remembered": (
            [listed(0, A1), watched(added(pod("b", 9)), added(pod("a", 3)), 2.0, end="end"), watched()],
            [FIRST, "WATCH rv=0", "WATCH rv=0"]),
        "after synthetic events resourceVersions are recorded": (
            [listed(0, A1), watched(added(pod("b", 9)), modified(pod("a", 12)), 2.0, end="end"), watched()],
            [FIRST, "WATCH rv=0", "WATCH rv=12"]),
    },
)  # fmt: skip
async def test_list_and_watch_transcripts(env: Env, script: list[Scripted], transcript: list[str]) -> None:
    server, _handled, _informer = await play(env, script)
    assert server.transcript == transcript


@cases(
    "script, transcript",
    {
        "the state arrives as a stream and the same stream is the watch; after its end, a plain watch": (
            [watched(added(A1), bookmark(5, ends_initial=True), 2.0, modified(pod("a", 7)), 2.0, end="end"), watched()],
            ["STREAM rv=", "WATCH rv=7"]),
        "no streaming lists: list, stream again at the next relist": (
            [NO_STREAMS, listed(5), CLOSED_410, NO_STREAMS, listed(8), watched()],
            ["STREAM rv=", FIRST, "WATCH rv=5", "pause 0.8", "STREAM rv=5", "LIST rv=5", "WATCH rv=8"]),
        "busy or down: the stream is tried again after a pause": (
            [BUSY, REFUSED_CONNECTION, watched(bookmark(5, ends_initial=True))],
            ["STREAM rv=", "pause 0.8", "STREAM rv=", "pause 1.6", "STREAM rv="]),
        "expired resourceVersion of a stream: newest, without backoff": (
            [watched(bookmark(5, ends_initial=True), 2.0, failing(410, "Expired"), end="end"), EXPIRED,
             watched(bookmark(9, ends_initial=True))],
            ["STREAM rv=", "pause 0.8", "STREAM rv=5", "STREAM rv="]),
        "an end before the bookmark: again, without a pause": (
            [watched(added(A1), 2.0, end="end"), watched(bookmark(5, ends_initial=True))],
            ["STREAM rv=", "STREAM rv="]),
        "very short stream without events: list": (
            [watched(0.1, end="end"), listed(5), watched()],
            ["STREAM rv=", FIRST, "WATCH rv=5"]),
    },
)  # fmt: skip
async def test_watch_list_transcripts(env: Env, script: list[Scripted], transcript: list[str]) -> None:
    server, _handled, _informer = await play(env, script, stream=True)
    assert server.transcript == transcript


async def test_watch_list_replaces_the_cache_when_complete(env: Env) -> None:
    """Nothing of an unfinished stream is shown; deletions among the initial events count; what follows the bookmark in
    the same piece is not lost."""
    piece = added(A1) + added(B1) + deleted(pod("b", 4)) + bookmark(5, ends_initial=True) + modified(pod("a", 6))
    _server, handled, informer = await play(
        env, [watched(added(pod("x", 1)), 2.0, end="end"), watched(piece)], stream=True
    )
    assert handled.lines == ["add a@1 initial", "update a@1 -> a@6"]
    assert informer.cache.resource_version == informer.last_version == "6"


async def test_watch_timeouts_are_random_between_five_and_ten_minutes(env: Env) -> None:
    timeouts: list[int] = []
    for _ in range(20):
        server, _handled, _informer = await play(env, [listed(1)], seconds=1.0)
        timeouts += server.timeouts
    assert all(300 <= timeout <= 600 for timeout in timeouts)
    assert len(set(timeouts)) > 10


async def test_unserved_kind_is_an_error_after_a_minute(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    """Deleting a definition causes no errors of watches that are about to stop."""
    caplog.set_level(logging.INFO)
    missing: list[Scripted] = [refused(404, "NotFound")] * 20

    async def reported(script: Sequence[Scripted], seconds: float) -> dict[str, int]:
        caplog.clear()
        await play(env, script, seconds=seconds)
        lines = [
            record for record in caplog.records if "served" in record.getMessage() or "Failed" in record.getMessage()
        ]
        return dict(Counter(line.levelname for line in lines))

    served: list[Scripted] = [listed(1), watched(added(pod("a", 2)), end="end")]
    assert (await reported([*served, *missing], 50.0)).keys() == {"INFO"}
    assert (await reported([*served, *missing], 200.0)).keys() == {"INFO", "ERROR"}
    assert (await reported([*served, *missing[:4], *served, *missing], 80.0)).keys() == {"INFO"}
    assert (await reported(missing, 10.0)).keys() == {"ERROR"}, "it has never been served"


async def test_backoff_resets_after_two_minutes(env: Env) -> None:
    backoff = Backoff(env, "test")
    for low in (0.8, 1.6, 3.2):
        wait = backoff.step()
        assert low <= wait < 2 * low
        await asyncio.sleep(wait)
    await asyncio.sleep(119.0)
    wait = backoff.step()
    assert 6.4 <= wait < 12.8
    await asyncio.sleep(wait + 121.0)
    assert 0.8 <= backoff.step() < 1.6


async def test_undecodable_object_is_skipped(env: Env) -> None:
    """In a list and in a watch: its cached state is kept, other objects are delivered, and the watch continues."""
    broken = pod("a", 7) | {"spec": {"nodeName": 5}}
    _server, handled, informer = await play(
        env,
        [
            listed(5, A1, B1),
            watched(modified(broken), modified(pod("b", 8)), 2.0, failing(410, "Expired"), end="end"),
            listed(9, broken, pod("b", 9), broken | {"metadata": {"name": "new", "namespace": "default"}}),
            watched(),
        ],
    )
    assert handled.lines == ["add a@1 initial", "add b@3 initial", "update b@3 -> b@8", "update b@8 -> b@9"]
    assert [p.metadata.resource_version for p in informer.cache.list()] == ["1", "9"]


async def test_undecodable_deletion_causes_a_relist(env: Env) -> None:
    """Passed over like a change, it would leave the object in the cache forever."""
    broken = pod("a", 7) | {"spec": {"nodeName": 5}}
    server, handled, informer = await play(
        env, [listed(5, A1, B1), watched(modified(pod("b", 6)), deleted(broken)), listed(9, pod("b", 6)), watched()]
    )
    assert server.transcript == [FIRST, "WATCH rv=5", "pause 0.8", "LIST rv=6", "WATCH rv=9"]
    assert handled.lines == ["add a@1 initial", "add b@3 initial", "update b@3 -> b@6", "delete a@1 unknown"]
    assert [p.metadata.name for p in informer.cache.list()] == ["b"]


async def test_error_names_an_unserved_version(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    await play(env, [refused(404, "NotFound")], seconds=0.5)
    [line] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert 'type="pods" version="v1" hint="the API server does not serve this version of the kind' in line
