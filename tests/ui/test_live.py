"""The tables of the page follow changes in order and within bounds."""

import asyncio
import json
from typing import Any

from tests.ui.page_client import PageClient, page_client

from pilothouse.api.core import PODS
from pilothouse.env import Env
from pilothouse.ui.live import GRACE_SECONDS, TICK_SECONDS, Reader
from pilothouse.ui.rows import MAX_EVENTS


class Copy:
    """The browser's state after each frame."""

    def __init__(self) -> None:
        self.columns: dict[str, list[str]] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        self.frames = 0
        self.resets = 0
        self.last: dict[str, Any] = {}

    def take(self, data: bytes) -> None:
        for line in data.splitlines():
            frame = json.loads(line)
            self.frames += 1
            self.last |= frame
            if "reset" in frame:
                self.columns = frame["reset"]
                self.rows = {name: {} for name in self.columns}
                self.resets += 1
            elif "table" in frame:
                rows = self.rows[frame["table"]]
                for key in frame.get("gone", ()):
                    rows.pop(key, None)
                for row in frame.get("rows", ()):
                    rows[row[0]] = row


async def follow(reader: Reader, copy: Copy) -> None:
    async for data in reader.frames():
        copy.take(data)


def opened(one: PageClient) -> Reader:
    reader = one.page.live.open()
    assert reader is not None
    return reader


async def pods(one: PageClient, names: range) -> None:
    for name in names:
        spec = {"containers": [{"name": "main", "image": "nginx"}]}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p-{name}"}, "spec": spec}
        await one.client.create(PODS, json.dumps(document).encode(), "default")


async def truth(one: PageClient) -> dict[str, dict[str, Any]]:
    """The rows computed from scratch."""
    copy = Copy()
    async for data in one.page.live.past(one.plane.server.store.revision):
        copy.take(data)
    return copy.rows


async def test_reader_gets_all_rows_and_then_changes(env: Env) -> None:
    async with page_client(env, nodes=3) as one:
        await pods(one, range(5))
        reader, copy = opened(one), Copy()
        reading = asyncio.create_task(follow(reader, copy))
        await asyncio.sleep(1)
        assert len(copy.rows["nodes"]) == 3
        await pods(one, range(5, 15))
        for name in range(5):
            await one.client.delete(PODS, f"p-{name}", "default")
        await asyncio.sleep(60)
        assert copy.rows == await truth(one)
        assert len(copy.rows["pods"]) == 10
        assert copy.resets == 1
        one.page.live.close(reader)
        await reading


async def test_changes_of_one_object_are_merged(env: Env) -> None:
    async with page_client(env) as one:
        reader, copy = opened(one), Copy()
        reading = asyncio.create_task(follow(reader, copy))
        await pods(one, range(1))
        await asyncio.sleep(30)
        before = copy.frames
        for number in range(100):
            patch = json.dumps({"metadata": {"labels": {"pod-template-hash": str(number)}}}).encode()
            await one.client.request(
                "PATCH",
                "/api/v1/namespaces/default/pods/p-0",
                body=patch,
                headers={"content-type": "application/merge-patch+json"},
            )
        await asyncio.sleep(3 * TICK_SECONDS)
        assert "99" in copy.rows["pods"]["/pods/default/p-0"]
        # A row and a mark each tick, and the samples of the programs each second.
        assert copy.frames - before < 12
        one.page.live.close(reader)
        await reading


async def test_slow_reader_gets_all_rows_again(env: Env) -> None:
    async with page_client(env) as one:
        reader, copy = opened(one), Copy()
        frames = reader.frames()
        while "complete" not in copy.last:
            copy.take(await anext(frames))
        await pods(one, range(40))
        await asyncio.sleep(200)  # nothing is read for longer than there is room
        while copy.resets < 2 or copy.rows != await truth(one):
            copy.take(await anext(frames))
        assert reader.resyncs == 1
        assert len(copy.rows["pods"]) == 40
        one.page.live.close(reader)


async def test_only_the_newest_events_are_shown(env: Env) -> None:
    async with page_client(env) as one:
        reader, copy = opened(one), Copy()
        reading = asyncio.create_task(follow(reader, copy))
        await pods(one, range(MAX_EVENTS // 2))
        await asyncio.sleep(60)
        assert one.plane.server.store.count("/events/") > MAX_EVENTS
        assert len(copy.rows["events"]) == MAX_EVENTS
        assert copy.rows["events"] == (await truth(one))["events"]
        one.page.live.close(reader)
        await reading


async def test_no_rows_are_kept_without_readers(env: Env) -> None:
    async with page_client(env) as one:
        live = one.page.live
        reader = opened(one)
        await live.wait_built()
        live.close(reader)
        await asyncio.sleep(GRACE_SECONDS + 1)
        await pods(one, range(3))
        assert not live._dirty
        assert all(not rows.rows for rows in live._tables.values())
        reader, copy = opened(one), Copy()
        reading = asyncio.create_task(follow(reader, copy))
        await asyncio.sleep(30)
        assert copy.rows == await truth(one)
        live.close(reader)
        await reading


async def test_readers_end_when_the_server_stops(env: Env) -> None:
    async with page_client(env) as one:
        reading = [asyncio.create_task(follow(opened(one), Copy())) for _ in range(3)]
        await asyncio.sleep(1)
        await one.page.stop()
        await asyncio.wait_for(asyncio.gather(*reading), 5)


async def test_reader_gets_samples_of_the_programs(env: Env) -> None:
    async with page_client(env) as one:
        reader, copy = opened(one), Copy()
        reading = asyncio.create_task(follow(reader, copy))
        await pods(one, range(2))
        await asyncio.sleep(5)
        queues = {row[0]: row for row in copy.last["controllers"]}
        assert queues["noexec_taint_pod"][1] == "taint-eviction-controller"
        assert queues["noexec_taint_pod"][3] > 0
        decided = [row for row in copy.last["decisions"] if row[2] == "default/p-1"]
        assert [(row[3], row[4]) for row in decided] == [(decided[0][3], 2)]
        one.page.live.close(reader)
        await reading
