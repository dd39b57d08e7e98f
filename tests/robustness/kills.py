"""Many SIGKILLs: each kind of program a number of times, the kinds concurrently.

An etcd member and an API server are killed by chance, also the same one again, and are waited for, so that the cluster
can go on: two members of three are never gone at once. Of managers and schedulers the one is killed that works: the
Lease then has to get another holder.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import ha
from tests.robustness.cluster import API_SERVERS, ETCD, MANAGERS, SCHEDULERS, Cluster
from tests.robustness.traffic import Connection, Shared

SHORT_LEASE = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
)
"""For managers and schedulers: with the default of 15 s most of a run would be spent waiting."""
LEASES = {
    "manager": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager",
    "scheduler": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler",
}
PROGRESS_SECONDS = 120.0
"""The maximum time until a program is ready and writes succeed; a busy machine needs most of it."""
_PAUSE_SECONDS = 1.0
_TAKEOVER_SECONDS = 8.0
"""Twice the lease duration: there is no takeover if the standby was killed."""


class Kills:
    """Kills each kind of program ``times`` times."""

    def __init__(self, cluster: Cluster, shared: Shared, seed: int, times: int) -> None:
        self._cluster = cluster
        self._shared = shared
        self._seed = seed
        self._times = times
        self.takeovers: Counter[str] = Counter()
        """Kills after which the Lease changed its holder, by kind."""
        self.slowest: dict[str, float] = {}
        """The longest time from a kill until the program was ready or the other one led, by kind."""
        self.errors: list[str] = []

    def run(self) -> None:
        """Run all kills. Raises ``AssertionError`` if a program does not become ready or writes do not succeed."""
        work = {
            "etcd": lambda: self._kill_by_chance("etcd", ETCD, self._answers),
            "apiserver": lambda: self._kill_by_chance("apiserver", API_SERVERS, self._is_ready),
            "manager": lambda: self._kill_holders("manager", MANAGERS),
            "scheduler": lambda: self._kill_holders("scheduler", SCHEDULERS),
        }
        threads = [
            threading.Thread(target=self._guarded, args=(worker,), name=f"kills {kind}")
            for kind, worker in work.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.errors, self.errors

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(f"{threading.current_thread().name}: {error!r}")
            raise

    def _kill_by_chance(self, kind: str, names: tuple[str, ...], is_back: Callable[[str], bool]) -> None:
        rng = random.Random(f"{self._seed} {kind}")
        while self._cluster.kills[kind] < self._times and not self.errors:
            name = rng.choice(names)
            before = self._shared.acknowledged
            self._kill(kind, name, lambda name=name: is_back(name))  # type: ignore[misc]
            self._until(lambda before=before: self._shared.acknowledged > before + 1, f"writes after {name} was killed")  # type: ignore[misc]
            time.sleep(rng.uniform(0, _PAUSE_SECONDS))

    def _kill_holders(self, kind: str, names: tuple[str, ...]) -> None:
        connection = Connection(self._shared)
        try:
            self._kill_in_turn(kind, names, lambda: self._holder(connection, kind))
        finally:
            connection.close()

    def _holder(self, connection: Connection, kind: str) -> str:
        answer = connection.request("GET", LEASES[kind])
        known = answer is not None and answer.status == 200
        return answer.document["spec"].get("holderIdentity") or "" if answer is not None and known else ""

    def _kill_in_turn(self, kind: str, names: tuple[str, ...], holder: Callable[[], str]) -> None:
        # The active process can't be identified from outside; the other one takes over, so the two alternate.
        rng = random.Random(f"{self._seed} {kind}")
        while self._cluster.kills[kind] < self._times and not self.errors:
            self._until(lambda: bool(holder()), f"a holder of {LEASES[kind]}")
            before, began = holder(), time.monotonic()
            self._kill(kind, names[self._cluster.kills[kind] % len(names)], lambda: True)
            while (result := holder()) in ("", before) and time.monotonic() < began + _TAKEOVER_SECONDS:
                time.sleep(0.2)
            if result not in ("", before):
                self.takeovers[kind] += 1
                self._took(kind, began)
            time.sleep(rng.uniform(0, _PAUSE_SECONDS))

    def _kill(self, kind: str, name: str, is_back: Callable[[], bool]) -> None:
        began = time.monotonic()
        self._until(lambda: self._cluster.kill(name), f"{name} runs and can be killed")
        self._until(is_back, f"{name} is back after it was killed")
        self._took(kind, began)

    def _took(self, kind: str, began: float) -> None:
        self.slowest[kind] = max(self.slowest.get(kind, 0.0), round(time.monotonic() - began, 1))

    def _until(self, condition: Callable[[], bool], description: str) -> None:
        deadline = time.monotonic() + PROGRESS_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"never, within {PROGRESS_SECONDS:.0f} s: {description}"
            time.sleep(0.1)

    def _answers(self, name: str) -> bool:
        """Whether a member has rejoined: this read requires a leader."""
        try:
            self._cluster.etcd(name, "kv/range", {"key": "AA=="}, seconds=5.0)
        except OSError:
            return False
        return True

    def _is_ready(self, name: str) -> bool:
        return ha.is_ready(self._cluster.layout.reach("", name, "https"))
