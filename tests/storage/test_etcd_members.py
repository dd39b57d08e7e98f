"""Two stores on a three-member etcd whose members are killed in turn: no acknowledged write is lost, and no event is
lost, duplicated or reordered."""

import asyncio
import contextlib
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.conformance.stores import PlainCodec, PlainKeys, put
from tests.etcd import etcd_command
from tests.programs import free_port

from pilothouse.env import Env
from pilothouse.storage import StoreError
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore


class Observed(msgspec.Struct, frozen=True):
    """The final state of one store: the revision of each key, and the events of a watch, as (revision, key)."""

    state: Mapping[str, int]
    events: Sequence[tuple[int, str]]


def violations(acknowledged: Mapping[str, int], observed: Sequence[Observed]) -> list[str]:
    """Violations in a history of keys that are each created once."""
    result = []
    for at, one in enumerate(observed):
        result += [
            f"store {at}: {key}, acknowledged at {revision}, is at {one.state.get(key)}"
            for key, revision in acknowledged.items()
            if one.state.get(key) != revision
        ]
        revisions = [revision for revision, _key in one.events]
        if revisions != sorted(set(revisions)):
            result.append(f"store {at}: events are doubled or out of order")
        if {key: revision for revision, key in one.events} != dict(one.state):
            result.append(f"store {at}: the events do not lead to the state")
        if one.state != observed[0].state:
            result.append(f"store {at} and store 0 differ")
    return result


_GOOD = Observed({"a": 2, "b": 3}, [(2, "a"), (3, "b")])


@pytest.mark.parametrize(
    ("acknowledged", "observed", "message"),
    [
        pytest.param({"a": 2}, _GOOD, "", id="no anomaly"),
        pytest.param({"a": 2, "c": 4}, _GOOD, "acknowledged at 4, is at None", id="a lost write"),
        pytest.param({"a": 1}, _GOOD, "acknowledged at 1, is at 2", id="different revision"),
        pytest.param({}, Observed(_GOOD.state, [(2, "a"), (3, "b"), (3, "b")]), "doubled", id="a doubled event"),
        pytest.param({}, Observed(_GOOD.state, [(3, "b"), (2, "a")]), "out of order", id="out of order"),
        pytest.param({}, Observed(_GOOD.state, [(2, "a")]), "do not lead to the state", id="a lost event"),
    ],
)
def test_checker_detects_injected_violations(acknowledged: dict[str, int], observed: Observed, message: str) -> None:
    result = violations(acknowledged, [observed])
    assert any(message in item for item in result) if message else not result


def test_checker_compares_the_stores() -> None:
    assert violations({}, [_GOOD, Observed({"a": 2}, [(2, "a")])]) == ["store 1 and store 0 differ"]


class Members:
    """An etcd of three."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="pilothouse-members-"))
        self._ports = [(free_port(), free_port()) for _ in range(3)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def urls(self) -> list[str]:
        """Of its members."""
        return [f"http://127.0.0.1:{client}" for client, _peer in self._ports]

    def start(self, number: int) -> None:
        """Start a member."""
        peers = [f"http://127.0.0.1:{peer}" for _client, peer in self._ports]
        self._running[number] = subprocess.Popen(
            etcd_command(
                f"--name=m{number}",
                f"--data-dir={self._directory / str(number)}",
                f"--listen-client-urls={self.urls[number]}",
                f"--advertise-client-urls={self.urls[number]}",
                f"--listen-peer-urls={peers[number]}",
                f"--initial-advertise-peer-urls={peers[number]}",
                "--initial-cluster=" + ",".join(f"m{at}={peer}" for at, peer in enumerate(peers)),
                "--unsafe-no-fsync=true",
                "--log-level=error",
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, number: int) -> None:
        """Kill a member."""
        process = self._running.pop(number)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all."""
        for number in list(self._running):
            self.kill(number)
        shutil.rmtree(self._directory, ignore_errors=True)


@pytest.fixture
def members() -> Iterator[Members]:
    """Three of them."""
    result = Members()
    try:
        for number in range(3):
            result.start(number)
        yield result
    finally:
        result.stop()


async def _opened(env: Env, urls: list[str]) -> EtcdStore:
    options = EtcdOptions(servers=tuple(urls), compaction_interval=0)
    async with asyncio.timeout(20):
        while True:
            try:
                return EtcdStore.open(env, options, PlainKeys("/t"), PlainCodec())
            except StoreError:  # they elect a leader first
                await asyncio.sleep(0.2)


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.timeout(2400)
@pytest.mark.real_loop(timeout=2300)
async def test_killed_members_lose_no_writes_or_events(
    env: Env, members: Members, soak: bool, soak_minutes: float
) -> None:
    """For twelve seconds, or with --soak for minutes."""
    urls = members.urls
    stores = [await _opened(env, urls[at:] + urls[:at]) for at in range(2)]
    end = time.monotonic() + (soak_minutes * 60 if soak else 12)
    acknowledged: dict[str, int] = {}
    events: list[list[tuple[int, str]]] = [[], []]

    async def follow(at: int) -> None:
        async for batch in stores[at].watch("/pods/", stores[at].revision):
            events[at] += [(change.revision, change.key) for change in batch]

    async def write(writer: int) -> None:
        store, number = stores[writer % 2], 0
        while time.monotonic() < end:
            key, number = f"/pods/default/{writer}-{number}", number + 1
            try:
                acknowledged[key] = await put(store, key, expected=0)
            except StoreError:  # it may have been stored or not
                await asyncio.sleep(0.05)

    async def kill() -> None:
        rng = random.Random(11)
        while time.monotonic() < end - 5:
            await asyncio.sleep(rng.uniform(0.5, 2))
            number = rng.randrange(3)
            await asyncio.to_thread(members.kill, number)
            await asyncio.sleep(rng.uniform(0.2, 1))
            members.start(number)
            await asyncio.sleep(1.5)

    followers = [asyncio.create_task(follow(at)) for at in range(2)]
    try:
        await asyncio.gather(kill(), *(write(writer) for writer in range(4)))
        await asyncio.sleep(2)
        for store in stores:
            await store.catch_up()
        await asyncio.sleep(0.2)
        observed = [
            Observed({record.key: record.revision for record in store.list("/pods/").records}, events[at])
            for at, store in enumerate(stores)
        ]
        assert len(acknowledged) > 500
        assert violations(acknowledged, observed) == []
    finally:
        for task in followers:
            task.cancel()
        for store in stores:
            with contextlib.suppress(StoreError):
                await store.close()


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.real_loop(timeout=60)
async def test_watch_ends_at_a_partitioned_member(env: Env, members: Members) -> None:
    """It would be silent, and the store could not detect that it is stale."""
    store = await _opened(env, members.urls[:1])
    try:
        await put(store, "/pods/default/a", expected=0)
        assert store.is_reachable
        for number in (1, 2):
            members.kill(number)
        async with asyncio.timeout(20):
            while store.is_reachable:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.05)
    finally:
        await store.close()
