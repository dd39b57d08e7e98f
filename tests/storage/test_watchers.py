"""The cost of a change depends only on the watchers of its prefix."""

import asyncio

from pilothouse.env import Env
from pilothouse.storage.records import Change
from pilothouse.storage.watchers import Watcher, WatcherIndex


class Counting(Watcher):
    """A watcher that counts how often it is bothered."""

    bothered = 0

    def deliver(self, batch: list[Change], size: int) -> None:
        self.bothered += 1
        super().deliver(batch, size)


def watcher(index: WatcherIndex, prefix: str) -> Counting:
    new_watcher = Counting(index, prefix, 1, [], 10)
    index.add(new_watcher)
    return new_watcher


def change(key: str, revision: int = 2) -> Change:
    return Change(revision, key, "ADDED", b"", None)


def test_watchers_of_other_prefixes_are_not_notified() -> None:
    index = WatcherIndex()
    others = [watcher(index, f"coordination.k8s.io/leases/kube-node-lease/node-{i}") for i in range(100)]
    others += [watcher(index, f"/configmaps/ns-{i}/") for i in range(100)]
    pod_watcher = watcher(index, "/pods/")
    index.publish([change("/pods/default/a"), change("/pods/default/b", 3)], ["/pods/", "/pods/"])
    assert pod_watcher.bothered == 1
    assert sum(other.bothered for other in others) == 0


def test_removed_watchers_are_released() -> None:
    index = WatcherIndex()
    watchers = [watcher(index, prefix) for prefix in ("", "apps/", "/pods/", "/pods/a/", "/pods/a/x", "/pods/")]
    assert len(index) == 6
    assert list(index) == [watchers[0], watchers[1], watchers[2], watchers[5], watchers[3], watchers[4]]
    for item in watchers:
        item.close()
        index.remove(item)
    assert len(index) == 0
    assert (index._by_prefix, index._narrow, index._wide) == ({}, {}, 0)


def test_watcher_closed_during_a_dispatch() -> None:
    index = WatcherIndex()
    first = watcher(index, "/pods/")
    second = watcher(index, "/pods/")

    class Closing(Watcher):
        def deliver(self, batch: list[Change], size: int) -> None:
            first.close()
            second.close()

    index.add(Closing(index, "", 1, [], 10))
    index.publish([change("/pods/default/a")], ["/pods/"])
    index.publish([change("/pods/default/b", 3)], ["/pods/"])
    assert first.take() == [] and second.take() == []


async def test_waiting_watchers_take_changes_directly_or_are_woken_in_order(env: Env) -> None:
    index = WatcherIndex()
    received: list[tuple[str, int]] = []

    def taking(name: str, *, takes: bool = True) -> Counting:
        new_watcher = watcher(index, "/pods/")

        def take(batch: list[Change]) -> bool:
            received.append((name, batch[0].revision))
            return takes

        new_watcher.handler = take
        return new_watcher

    first, second = taking("first"), taking("second")
    waiting = [asyncio.ensure_future(watcher_.changed()) for watcher_ in (first, second)]
    await asyncio.sleep(0)
    index.publish([change("/pods/default/a", 1)], ["/pods/"], direct=True)
    assert received == [], "what was there before they began is not for them"
    index.publish([change("/pods/default/a", 2)], ["/pods/"], direct=True)
    assert received == [("first", 2), ("second", 2)]
    assert not any(watcher_.done() for watcher_ in waiting)
    index.publish([change("/pods/default/a", 3)], ["/pods/"])
    await asyncio.gather(*waiting)
    assert [first.take()[0].revision, second.take()[0].revision] == [3, 3], "not every write may be taken at once"

    waiting = [asyncio.ensure_future(second.changed())]
    await asyncio.sleep(0)
    index.publish([change("/pods/default/a", 4)], ["/pods/"], direct=True)
    await asyncio.gather(*waiting)
    assert len(received) == 2, "the first does not wait, so that the second would be ahead of it"
    assert [first.take()[0].revision, second.take()[0].revision] == [4, 4]

    third = taking("third", takes=False)
    waiting = [asyncio.ensure_future(watcher_.changed()) for watcher_ in (first, second, third)]
    await asyncio.sleep(0)
    index.publish([change("/pods/default/a", 5)], ["/pods/"], direct=True)
    await waiting[2]
    assert third.take()[0].revision == 5, "it could not, and gets it the other way"
    assert not waiting[0].done()
    for item in (first, second, third):
        item.close()
    await asyncio.gather(*waiting)
