"""The cost of a change is that of the watchers it concerns."""

from pilothouse.storage.records import Change
from pilothouse.storage.watchers import Watcher, WatcherIndex


class Counting(Watcher):
    """A watcher that counts how often it is bothered."""

    bothered = 0

    def deliver(self, batch: list[Change], size: int) -> None:
        self.bothered += 1
        super().deliver(batch, size)


def watcher(index: WatcherIndex, prefix: str) -> Counting:
    made = Counting(index, prefix, 1, [], 10)
    index.add(made)
    return made


def change(key: str, revision: int = 2) -> Change:
    return Change(revision, key, "ADDED", b"", None)


def test_watchers_of_other_prefixes_are_not_bothered() -> None:
    index = WatcherIndex()
    others = [watcher(index, f"coordination.k8s.io/leases/kube-node-lease/node-{i}") for i in range(100)]
    others += [watcher(index, f"/configmaps/ns-{i}/") for i in range(100)]
    mine = watcher(index, "/pods/")
    index.publish([change("/pods/default/a"), change("/pods/default/b", 3)], ["/pods/", "/pods/"])
    assert mine.bothered == 1
    assert sum(other.bothered for other in others) == 0


def test_removed_watchers_leave_nothing_behind() -> None:
    index = WatcherIndex()
    watchers = [watcher(index, prefix) for prefix in ("", "apps/", "/pods/", "/pods/a/", "/pods/a/x", "/pods/")]
    assert len(index) == 6
    assert list(index) == [watchers[0], watchers[1], watchers[2], watchers[5], watchers[3], watchers[4]]
    for one in watchers:
        one.close()
        index.remove(one)
    assert len(index) == 0
    assert (index._by_prefix, index._narrow, index._wide) == ({}, {}, 0)


def test_watchers_may_close_others_while_a_commit_is_handed_out() -> None:
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
