"""Recording a cluster through broken watches, and replaying at any speed."""

import asyncio
import errno
import gzip
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.custom_resources import definition, version
from tests.snapshots.files import CONFIG_MAPS, HEADER, config_map, end, write
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS as MAPS
from pilothouse.client import Client, merge_patch
from pilothouse.client.interceptor import Interceptor, Rule, delay, fail, gone, lose_request
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import InformerFactory
from pilothouse.snapshots import restored
from pilothouse.snapshots.file_format import SnapshotError
from pilothouse.snapshots.reading import RecordedChange, SnapshotFile
from pilothouse.snapshots.recording import Recorder, RecordingWriter, RecordOptions
from pilothouse.snapshots.replaying import Replay
from pilothouse.snapshots.saving import SaveOptions
from pilothouse.storage import MemoryStore
from pilothouse.testing import AsyncCluster, async_plane

Object = dict[str, Any]


def a_map(name: str, value: str = "1", **meta: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"n": value}}


class RecordedPlane:
    """A plane, and its recorder, whose connection may break."""

    def __init__(self, cluster: AsyncCluster, faults: Interceptor, recorder: Recorder) -> None:
        self.cluster = cluster
        self.faults = faults
        self.recorder = recorder

    async def change(self, name: str, value: str) -> None:
        await self.cluster.client.patch(MAPS.raw, name, merge_patch({"data": {"n": value}}), "default")


@asynccontextmanager
async def recording(env: Env, path: Path, **options: Any) -> AsyncIterator[RecordedPlane]:
    """Recorded until the end of the block. A ConfigMap ``old`` is there before."""
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await cluster.create(a_map("old"))
        faults = Interceptor(cluster.plane.server.transport("admin", ("system:masters",)), env)
        recorder = Recorder(Client(faults, env), env, path, RecordOptions(**options))
        async with TaskGroup("test") as group:
            group.start(recorder.run(), name="recorder")
            await recorder.ready.wait()
            yield RecordedPlane(cluster, faults, recorder)
            group.cancel()


def changes(path: Path, kind: str = "ConfigMap") -> list[tuple[float, str, str, str]]:
    """Time, type, name and value of each change of the kind."""
    result: list[tuple[float, str, str, str]] = []
    for change in SnapshotFile(path).changes():
        obj = json.loads(change.entry.raw)
        if obj["kind"] == kind:
            value = (obj.get("data") or {}).get("n", "")
            result.append((round(change.at), change.type, obj["metadata"]["name"], value))
    return result


async def test_every_change_is_recorded(env: Env, tmp_path: Path) -> None:
    async with recording(env, tmp_path / "r") as recorded:
        await asyncio.sleep(10)
        await recorded.cluster.create(a_map("new"))
        await asyncio.sleep(10)
        await recorded.change("old", "2")
        await asyncio.sleep(10)
        await recorded.cluster.delete("v1", "ConfigMap", "new")
        await asyncio.sleep(10)
    assert changes(tmp_path / "r") == [
        (10, "ADDED", "new", "1"),
        (20, "MODIFIED", "old", "2"),
        (30, "DELETED", "new", "1"),
    ]
    assert (recorded.recorder.changes, recorded.recorder.relists) == (3, 0)
    assert restored(tmp_path / "r").records, "as a snapshot it is the beginning"
    assert (tmp_path / "r").stat().st_mode & 0o777 == 0o600


@cases(
    "break_, relists",
    {
        "watches end": (lambda faults: faults.end_watches(), 0),
        "connections break": (lambda faults: faults.end_watches(with_=lose_request()), 0),
        "410": (lambda faults: faults.end_watches(with_=gone()), 1),
        "503 for a minute": (
            lambda faults: (faults.add(Rule(fail(503, "ServiceUnavailable"), times=40)), faults.end_watches()),
            0,
        ),
    },
)
async def test_broken_watch_loses_no_object(
    env: Env, tmp_path: Path, break_: Callable[[Interceptor], object], relists: int
) -> None:
    async with recording(env, tmp_path / "r") as recorded:
        await recorded.cluster.create(a_map("before"))
        await asyncio.sleep(1)
        break_(recorded.faults)
        await recorded.change("old", "2")
        await recorded.cluster.create(a_map("meanwhile"))
        await recorded.cluster.delete("v1", "ConfigMap", "before")
        await asyncio.sleep(300)
        await recorded.change("old", "3")
        await asyncio.sleep(1)
    result = {(kind, name, value) for _at, kind, name, value in changes(tmp_path / "r")}
    assert result >= {
        ("ADDED", "before", "1"),
        ("MODIFIED", "old", "2"),
        ("ADDED", "meanwhile", "1"),
        ("MODIFIED", "old", "3"),
    }
    assert ("DELETED", "before") in {(kind, name) for kind, name, _value in result}
    assert (recorded.recorder.relists > 0) == bool(relists)


async def test_object_recreated_during_an_outage_is_deleted_and_added(env: Env, tmp_path: Path) -> None:
    async with recording(env, tmp_path / "r") as recorded:
        await asyncio.sleep(1)
        recorded.faults.add(Rule(delay(5.0), verb="list", resource="configmaps"))
        recorded.faults.end_watches(with_=gone())
        await asyncio.sleep(0.1)
        await recorded.cluster.delete("v1", "ConfigMap", "old")
        await recorded.cluster.create(a_map("old", "9"))
        await asyncio.sleep(60)
    assert [change[1:] for change in changes(tmp_path / "r")] == [("DELETED", "old", ""), ("ADDED", "old", "9")]


async def test_new_custom_resources_are_recorded(env: Env, tmp_path: Path) -> None:
    async with recording(env, tmp_path / "r") as recorded:
        await recorded.cluster.create(definition("Widget", version("v1")))
        await asyncio.sleep(10)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1.0}}
        await recorded.cluster.create(widget)
        await asyncio.sleep(10)
    assert [change[1:3] for change in changes(tmp_path / "r", "Widget")] == [("ADDED", "w")]


async def test_secret_values_are_not_recorded(env: Env, tmp_path: Path) -> None:
    async with recording(env, tmp_path / "r") as recorded:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "swordfish"}}
        await recorded.cluster.create(secret)
        await asyncio.sleep(1)
    text = gzip.decompress((tmp_path / "r").read_bytes())
    assert b'"change":"ADDED"' in text
    assert b"c3dvcmRmaXNo" not in text


async def test_recording_ends_at_its_limits(env: Env, tmp_path: Path) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        timed = Recorder(cluster.client, env, tmp_path / "a", RecordOptions(seconds=30.0))
        await timed.run()
        assert not timed.full
        small = Recorder(cluster.client, env, tmp_path / "b", RecordOptions(max_bytes=100_000))
        async with TaskGroup("test") as group:
            running = group.start(small.run(), name="recorder")
            await small.ready.wait()
            for number in range(100):
                await cluster.create(a_map(f"map-{number}", "x" * 1000))
            await asyncio.wait_for(running, 10)
        assert small.full
        assert 100_000 < small.size < 105_000
    assert len(changes(tmp_path / "b")) == small.changes > 10


async def test_existing_file_is_not_overwritten(env: Env, tmp_path: Path) -> None:
    (tmp_path / "r").write_text("mine")
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        with pytest.raises(FileExistsError):
            await Recorder(cluster.client, env, tmp_path / "r", RecordOptions()).run()
    assert (tmp_path / "r").read_text() == "mine"


async def test_failed_snapshot_leaves_no_file(env: Env, tmp_path: Path) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        faults = Interceptor(cluster.plane.server.transport("admin", ("system:masters",)), env)
        faults.add(Rule(lose_request(), verb="list", resource="pods"))
        with pytest.raises(ConnectionError):
            await Recorder(Client(faults, env), env, tmp_path / "r", RecordOptions()).run()
    assert list(tmp_path.iterdir()) == []


async def test_recording_is_readable_after_the_disk_is_full(
    env: Env, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_writer: RecordingWriter, _line: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ExceptionGroup) as failed:  # noqa: PT012  # the block is what is recorded
        async with recording(env, tmp_path / "r") as recorded:
            await recorded.cluster.create(a_map("kept"))
            await asyncio.sleep(5)
            monkeypatch.setattr(RecordingWriter, "_write", full)
            await recorded.cluster.create(a_map("lost"))
            await asyncio.sleep(5)
    assert failed.group_contains(OSError, match="No space left on device")
    assert [change[2] for change in changes(tmp_path / "r")] == ["kept"]


async def test_flushed_changes_are_readable(env: Env, tmp_path: Path) -> None:
    """As after kill -9: the file has no end, and the last line is cut."""
    async with recording(env, tmp_path / "r") as recorded:
        for number in range(20):
            await recorded.cluster.create(a_map(f"map-{number}"))
        await asyncio.sleep(5)
        (tmp_path / "cut").write_bytes((tmp_path / "r").read_bytes())
    file = SnapshotFile(tmp_path / "cut")
    assert len(list(file.changes())) == 20
    assert not file.complete
    (tmp_path / "shorter").write_bytes((tmp_path / "cut").read_bytes()[:-40])
    assert 0 < len(list(SnapshotFile(tmp_path / "shorter").changes())) <= 20


def line(change: str, at: float, obj: Object) -> Object:
    return {"change": change, "at": at, "object": obj}


RECORDING = {**HEADER, "recording": True}


@cases(
    "tail, error",
    {
        "missing resource": (
            [line("ADDED", 1.0, config_map("b"))],
            ":5: expected a change, after the line that says of what",
        ),
        "not a change": ([CONFIG_MAPS, config_map("b")], ":6: expected a change"),
        "an unknown type": ([CONFIG_MAPS, line("ERROR", 1.0, config_map("b"))], ":6: the change can't be read: "),
        "before the start": (
            [CONFIG_MAPS, line("ADDED", -1.0, config_map("b"))],
            ":6: the change is -1.0 seconds after",
        ),
        "namespace with ..": (
            [CONFIG_MAPS, line("ADDED", 1.0, config_map("b", namespace=".."))],
            ":6: the ConfigMap has an invalid metadata.namespace",
        ),
        "different kind": (
            [CONFIG_MAPS, line("DELETED", 1.0, {**config_map("b"), "kind": "Pod"})],
            ":6: expected a ConfigMap of v1",
        ),
    },
)
async def test_invalid_changes_are_rejected(env: Env, tmp_path: Path, tail: list[Object], error: str) -> None:
    path = write(tmp_path / "r", RECORDING, CONFIG_MAPS, config_map("a"), end(1), *tail)
    replay = Replay(path)
    with pytest.raises(SnapshotError, match=error.replace("(", "\\(")):
        await replay.run(MemoryStore(env), speed=math.inf, from_start=True)


def test_a_snapshot_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="this is a snapshot and no recording"):
        Replay(write(tmp_path / "s", HEADER, CONFIG_MAPS, config_map("a"), end(1)))


@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0, math.inf])
async def test_informers_receive_the_recorded_events(env: Env, tmp_path: Path, speed: float) -> None:
    """An informer over the replayed store: in order, at its pace, in virtual time."""
    async with recording(env, tmp_path / "r") as recorded:
        await asyncio.sleep(10)
        await recorded.cluster.create(a_map("new"))
        await asyncio.sleep(10)
        await recorded.change("old", "2")
        await asyncio.sleep(10)
        await recorded.cluster.delete("v1", "ConfigMap", "new")
        await asyncio.sleep(10)
    received: list[tuple[float, str, str]] = []
    observed: list[RecordedChange] = []
    async with async_plane(env=env, nodes=0, controllers=()) as cluster, TaskGroup("test") as group:
        replay = Replay(tmp_path / "r")
        store = cluster.plane.server.store
        began = env.monotonic()

        def note(event: str, obj: Any) -> None:
            if obj.metadata.namespace == "default" and "n" in obj.data:
                received.append((round(env.monotonic() - began), event, f"{obj.metadata.name}={obj.data['n']}"))

        informers = InformerFactory(cluster.client, env)
        informers.informer(MAPS).add_handler(
            on_add=lambda found, _initial: note("+", found),
            on_update=lambda _old, found: note("~", found),
            on_delete=lambda found, _unknown: note("-", found),
        )
        informers.start(group)
        await informers.informer(MAPS).wait_synced()
        began = env.monotonic()
        await replay.run(store, speed=speed, from_start=True, observe=observed.append)
        await asyncio.sleep(1)
        group.cancel()
    times = [0 if math.isinf(speed) else round(at / speed) for at in (0, 10, 20, 30)]
    assert received == [
        (times[0], "+", "old=1"),
        (times[1], "+", "new=1"),
        (times[2], "~", "old=2"),
        (times[3], "-", "new=1"),
    ]
    assert [item.type for item in observed] == ["ADDED", "MODIFIED", "DELETED"]
    assert replay.position.changes == 3


async def test_snapshot_options_apply(env: Env, tmp_path: Path) -> None:
    async with recording(env, tmp_path / "r", save=SaveOptions(exclude=("configmaps",))) as recorded:
        await recorded.cluster.create(a_map("new"))
        await asyncio.sleep(5)
    assert changes(tmp_path / "r") == []
