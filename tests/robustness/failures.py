"""Injected failures: programs are killed and stopped, links are cut, held and slowed, etcd runs full."""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.robustness.cluster import API_SERVERS, ETCD, KINDS, Cluster
from tests.robustness.ground_truth import JUNK, GroundTruth, encoded
from tests.robustness.network import CUT, HELD, OPEN

_FAILURES = OSError  # urllib's errors are
_JUNK_BYTES = 1_000_000
PROGRESS_SECONDS = 120.0
"""Writes must succeed within this time after the end of a failure; a busy machine needs most of it."""


class Failures:
    """Injects failures in sequence, and waits after each until writes succeed."""

    def __init__(self, cluster: Cluster, truth: GroundTruth, acknowledged: Callable[[], int], seed: int) -> None:
        self._cluster = cluster
        self._truth = truth
        self._acknowledged = acknowledged
        self._rng = random.Random(seed)
        self.injected: Counter[str] = Counter()
        self.recovery: dict[str, float] = {}
        """The longest time to the first acknowledged write after the end of a failure, by its kind."""
        self._over = threading.Event()

    def run(self, seconds: float, *, full_every: float) -> None:
        """Inject failures for this time."""
        end, full_at = time.monotonic() + seconds, time.monotonic() + full_every / 2
        work = [self._kill] * 6 + [self._pause] * 2 + [self._partition] * 3 + [self._slow, self._kill_many]
        # Each kind once in turn, and then by chance: short runs have all of them as well.
        first = [self._kill, self._pause, self._partition, self._slow, self._kill_many]
        self._rng.shuffle(first)
        while time.monotonic() < end:
            if time.monotonic() > full_at:
                full_at = time.monotonic() + full_every
                injected = self._fill
            else:
                injected = first.pop() if first else self._rng.choice(work)
            name = injected()
            self.injected[name] += 1
            self._recover(name)
            time.sleep(self._rng.uniform(0.5, 2.0))

    def _recover(self, name: str) -> None:
        before, began = self._acknowledged(), time.monotonic()
        while self._acknowledged() < before + 3:
            waited = time.monotonic() - began
            assert waited < PROGRESS_SECONDS, f"no write succeeds {waited:.0f} s after: {name}"
            time.sleep(0.05)
        self.recovery[name] = max(self.recovery.get(name, 0.0), time.monotonic() - began)

    def _kill(self) -> str:
        kind = self._rng.choice([*KINDS, "etcd", "apiserver"])
        self._cluster.kill(self._rng.choice(KINDS[kind]), down_seconds=self._rng.choice([0, 0, 0.5, 3]))
        return f"kill {kind}"

    def _kill_many(self) -> str:
        names = self._rng.choice([ETCD, ETCD[:2], API_SERVERS])
        threads = [threading.Thread(target=self._cluster.kill, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return f"kill {len(names)} {names[0].partition('-')[0]} at once"

    def _pause(self) -> str:
        kind = self._rng.choice(list(KINDS))
        name = self._rng.choice(KINDS[kind])
        self._cluster.signal(name, signal.SIGSTOP)
        time.sleep(self._rng.uniform(1, 12))
        self._cluster.signal(name, signal.SIGCONT)
        return f"pause {kind}"

    def _partition(self) -> str:
        partitioned, links = self._cluster.partition(self._rng)
        state = self._rng.choice([CUT, HELD])
        self._cluster.network.set(links, state)
        time.sleep(self._rng.uniform(1, 12))
        self._cluster.network.set(links, OPEN)
        return f"{state} {partitioned}"

    def _slow(self) -> str:
        one = self._rng.choice([*ETCD, *API_SERVERS])
        links = [name for name in list(self._cluster.network.links) if one in name.split(">")]
        self._cluster.network.slow(links, self._rng.uniform(0.02, 0.3))
        time.sleep(self._rng.uniform(3, 8))
        self._cluster.network.slow(links, 0.0)
        return f"slow {one.partition('-')[0]}"

    # A full etcd

    def _fill(self) -> str:
        """Write until the quota is reached and etcd rejects writes (alarm NOSPACE); then follow its documentation:
        delete, compact, defragment, disarm."""
        name = ETCD[0]
        for number in range(200):
            try:
                pair = {"key": encoded(f"{JUNK}{number}"), "value": encoded("x" * _JUNK_BYTES)}
                self._cluster.etcd(name, "kv/put", pair)
            except _FAILURES:
                if self._alarms():
                    break
        assert self._alarms(), "etcd never ran full"
        time.sleep(3)
        while True:
            try:
                self._empty(name)
                break
            except _FAILURES:
                time.sleep(0.5)
        return "etcd full"

    def _alarms(self) -> list[dict[str, str]]:
        try:
            result = self._cluster.etcd(ETCD[0], "maintenance/alarm", {"action": "GET"})
        except _FAILURES:
            return []
        return list(result.get("alarms", ()))

    def _empty(self, name: str) -> None:
        junk = {"key": encoded(JUNK), "range_end": encoded(JUNK[:-1] + "0")}
        revision = int(self._cluster.etcd(name, "kv/deleterange", junk)["header"]["revision"])
        deadline = time.monotonic() + 60
        while self._truth.revision < revision:  # it follows everything, and must not be left behind
            assert time.monotonic() < deadline, "nobody follows etcd"
            time.sleep(0.1)
        self._cluster.etcd(name, "kv/compaction", {"revision": str(revision), "physical": True}, seconds=60)
        for item in ETCD:
            self._cluster.etcd(item, "maintenance/defragment", {}, seconds=60)
        for alarm in self._alarms():
            deactivate = {"action": "DEACTIVATE", "memberID": alarm["memberID"], "alarm": "NOSPACE"}
            self._cluster.etcd(name, "maintenance/alarm", deactivate)
