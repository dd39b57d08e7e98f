"""The manager on kube-apiserver under long churn.

100 ReplicaSets and DaemonSets (200 with ``--soak``) are created, scaled, updated, deleted in every way; leaders are
killed, the API server restarts, connections are cut, certificates are replaced and the old ones expire. At the end
the pods are the desired ones, no pod was created twice, and the leader's process has no additional tasks, and memory
within a bound.

A minute by default, more on a busy machine; ``--soak-minutes`` (30) with ``--soak``; ``-s`` shows figures.
"""

import contextlib
import datetime
import json
import random
import re
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.programs import pilothouse, until
from tests.real.churn import Churn
from tests.real.conftest import apply_v1_36
from tests.real.relay import Relay
from tests.real.soaked import USER, Identity, Manager, Measures
from tests.real_cluster import RealCluster, missing_programs, running

from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects

pytestmark = [
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs()),
    pytest.mark.timeout(0),
]

SETS, FEWER_SETS = 200, 100
"""A short run has fewer, with the same changes: most of its time is spent on their pods."""
NODES = [f"soak-{number}" for number in range(6)]
RESTARTS = 2
SECONDS = 10.0
"""Duration of the changes. Recovery takes as long again: after an outage each reflector waits up to a minute
(upstream's backoff), and each API server has to start."""
ACQUIRED = "Successfully acquired lease"
EXPECTED = "|".join(
    [
        # v1.20 has no discovery.k8s.io/v1.
        "Skipping controller: the API server does not serve",
        "the server closed the connection",
        "Connection reset by peer",
        "connection refused",
        r" not found\\?\"",
        # A pod was released while the garbage collector removed the same owner reference. Upstream sends the same
        # patch; the next sync has nothing to do.
        "is invalid: .*ownerReferences.apiVersion",
        # An orphan was adopted by another controller during a broken watch. As upstream, the patch is repeated until
        # the cache has the new state.
        "is invalid: .*Only one reference can have Controller set to true",
        # The owner was deleted during a broken watch.
        "can't adopt .* has just been deleted at",
        # A pod was deleted during its patch: this server does not return "not found" then.
        'Precondition failed: UID in precondition: [-0-9a-f]+, UID in object meta: "',
        # The pod of a silent node was written by another client first.
        "Failed to mark a pod NotReady.* the object has been modified",
        # The connection was cut during a renewal, which was stored after the lock had been read again.
        "Failed to update lock.* the object has been modified",
        # An API server that has just started does not list all groups yet. The discovery that was read from it is
        # incomplete until the next refresh, half a minute later.
        "Cannot look up the kind of an object or of its owner.*unable to get REST mapping for apps/v1/",
        # At most a thousand events are queued (as upstream), and after a long outage every pod has one.
        "too many queued events, dropped event",
    ]
)
"""Errors and warnings that are expected at any time, because connections are cut and objects change concurrently."""

RECOVERY_SECONDS = 180.0
"""The maximum for recovery: a minute of backoff, and reserve for other load."""
RECORDERS = 3
"""Event recorders whose correlators are full (4,096 entries, as upstream) after the run: those of ReplicaSets,
DaemonSets and node lifecycle. A full one has 8,200 objects and takes 5.6 MB."""
ROTATE_SECONDS = 17.0
PAUSE_SECONDS = 0.02
"""Between two changes."""

BRIEF = ("--leader-elect-lease-duration=7s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=1s")
"""Flags of managers that are killed."""

PATIENT = ("--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s", "--leader-elect-retry-period=1s")
"""Flags of managers that keep running: under load an API server may take longer to start than upstream's ten
seconds."""

AUDIT = f"""\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Request
  verbs: [create]
  resources: [{{group: "", resources: [pods]}}]
- level: Metadata
  users: ["{USER}"]
- level: Metadata
  userGroups: ["system:serviceaccounts:kube-system"]
- level: None
"""


@dataclass
class SoakCluster:
    """A cluster with nodes and a scheduler, and the relay through which managers connect."""

    cluster: RealCluster
    relay: Relay
    directory: Path
    audit: Path

    def created(self) -> Counter[str]:
        """The number of created pods by owner, from the audit log."""
        return Counter(
            event["requestObject"]["metadata"]["ownerReferences"][0]["name"]
            for event in self._answered(201)
            if "requestObject" in event
        )

    def forbidden(self) -> list[tuple[datetime.datetime, str]]:
        """The times and requests for which managers were forbidden, from the audit log.

        It has the clock of this test. The managers' counters increase when the response is read, which may be much
        later under load.
        """
        return [
            (
                datetime.datetime.fromisoformat(event["requestReceivedTimestamp"]),
                f"{event['user']['username']} {event['verb']} {event['requestURI']} {event.get('annotations')}",
            )
            for event in self._answered(403)
        ]

    def _answered(self, code: int) -> Iterator[dict[str, Any]]:
        with self.audit.open() as lines:
            for line in lines:
                # A crash may leave an incomplete line, and most lines need not be parsed.
                if f'"code":{code}' in line and line.endswith("}\n"):
                    event: dict[str, Any] = json.loads(line)
                    if event["responseStatus"]["code"] == code:
                        yield event


@pytest.fixture
def soak_cluster(tmp_path: Path) -> Iterator[SoakCluster]:
    policy, audit = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(AUDIT)
    delays = ["--pod-start-delay=50ms", "--pod-stop-delay=50ms"]
    # The audit log is not rotated.
    with running(
        [f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-maxsize=10000"]
    ) as cluster:
        login = f"--kubeconfig={cluster.kubeconfig}"
        for resource, document in bootstrap_objects():
            if document["metadata"]["name"].startswith(("system:controller:", USER)):
                apply_v1_36(cluster, resource, document["metadata"]["name"])
        nodes = [f"--nodes={len(NODES)}", "--node-prefix=soak-", "--node-pods=250"]
        with (
            pilothouse(tmp_path, "nodes", login, *nodes, *delays),
            pilothouse(tmp_path, "scheduler", login),
            Relay(cluster.port) as relay,
        ):
            yield SoakCluster(cluster, relay, tmp_path, audit)


@dataclass(frozen=True)
class _Outage:
    """A period without an API server, or with one that had not loaded any roles."""

    since: datetime.datetime
    ready: datetime.datetime
    """When the new API server became ready."""
    reported: datetime.datetime
    """The end of the time in which managers log it."""

    def covers(self, at: str) -> bool:
        """Whether a log line of this time may be caused by the outage."""
        return f"{self.since:%H:%M:%S.%f}" <= at <= f"{self.reported:%H:%M:%S.%f}"


class Soak:
    """One run."""

    def __init__(self, soak_cluster: SoakCluster, seed: int, sets: int) -> None:
        self.soak_cluster = soak_cluster
        self.churn = Churn(soak_cluster.cluster, NODES, sets, seed)
        self.identity = Identity(soak_cluster.cluster, soak_cluster.directory, soak_cluster.relay.port)
        self.managers: list[Manager] = []
        self.unknown = 0
        """The number of 401 responses to managers that have ended, except during the start of API servers."""
        self.restarts = 0
        self._outages: list[_Outage] = []
        self._rng = random.Random(seed)
        self._rotate_at = time.monotonic() + ROTATE_SECONDS

    def start(self, lease: tuple[str, ...], stack: contextlib.ExitStack) -> Manager:
        """Start another manager."""
        manager = Manager(self.soak_cluster.directory, self.identity, lease, f"manager-{len(self.managers)}")
        stack.enter_context(manager.program)
        self.managers.append(manager)
        return manager

    def work(self, seconds: float) -> None:
        """Churn for this many seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.churn.step()
            self._rotate_in_time()
            time.sleep(PAUSE_SECONDS)

    def work_with_faults(self, seconds: float, restarts: int) -> None:
        """Churn for this many seconds, while API servers are stopped and connections are cut."""
        for _ in range(restarts):
            end = time.monotonic() + seconds / restarts
            while time.monotonic() < end:
                self.work(min(self._rng.uniform(0.5, 4), end - time.monotonic()))
                # Mostly watches; sometimes all connections, including those with requests in flight.
                self.soak_cluster.relay.cut(self._rng, self._rng.random(), quiet=self._rng.random() < 0.75)
            self.restart_api_server()

    def wait_until_desired(self, description: str) -> None:
        """Wait until the desired state is reached, and is stable."""
        started_at = time.monotonic()
        self.churn.finish(self._rotate_in_time)
        deadline = time.monotonic() + RECOVERY_SECONDS
        for _ in range(2):
            while problems := self.churn.problems():
                text = "\n".join(problems[:40])
                assert time.monotonic() < deadline, f"{description}, {len(problems)} differences:\n{text}"
                self._rotate_in_time()
                time.sleep(0.3)
            time.sleep(1)
        log(f"{description}, all as desired after {time.monotonic() - started_at:.0f} s")

    def kill(self, leader: Manager) -> None:
        """Kill the leader without a graceful shutdown."""
        self.unknown += leader.unknown()  # its counter is lost with the process
        leader.program.kill()

    def restart_api_server(self) -> None:
        """Restart the API server: three times out of four after SIGKILL, else after SIGTERM."""
        alive = [manager for manager in self.managers if manager.program.code is None]
        old_count = sum(manager.unknown() for manager in alive)
        since = _now()
        self.soak_cluster.cluster.stop_api_server(kill=self.restarts % 4 != 1)
        self._rotate()
        self.soak_cluster.cluster.start_api_server()
        ready = _now()
        time.sleep(1)
        self.unknown -= sum(manager.unknown() for manager in alive) - old_count
        self._outages.append(_Outage(since, ready, _now()))
        memory = ", ".join(manager.measure().words for manager in alive)
        log(f"{self.churn.done.total()} changes; no API server for {(ready - since).total_seconds():.1f} s; {memory}")
        self.restarts += 1

    def created_twice(self) -> Counter[str]:
        """The number of pods of each owner that were created in excess of what the changes require."""
        return self.soak_cluster.created() - self.churn.worth

    def forbidden(self) -> list[str]:
        """Forbidden requests of managers.

        An API server that is not ready yet serves before its authorizer has read the roles, and forbids everything to
        everybody but the administrator. Such responses are ignored. Rejections by admission (``decision`` is ``allow``)
        are not.
        """
        return [
            f"{at:%X.%f} {line}"
            for at, line in self.soak_cluster.forbidden()
            if "'forbid'" not in line or not any(outage.since <= at <= outage.ready for outage in self._outages)
        ]

    def _rotate_in_time(self) -> None:
        if time.monotonic() >= self._rotate_at:
            self._rotate()

    def _rotate(self) -> None:
        self.identity.rotate()
        self._rotate_at = time.monotonic() + ROTATE_SECONDS

    def unexpected(self, log: str) -> list[str]:
        """Lines of a manager's log that are neither expected nor caused by an outage."""
        result = re.findall(
            r"^.*(?:Traceback|panic|never retrieved|was destroyed|lost the lease).*$", log, re.MULTILINE
        )
        for line in re.findall(r"^[EWF]\d{4} .*$", log, re.MULTILINE):
            at = line.split(" ", 2)[1][:15]
            if not re.search(EXPECTED, line) and not any(outage.covers(at) for outage in self._outages):
                result.append(line)
        return result


def _now() -> datetime.datetime:
    """The current time, in the time zone of the logs."""
    return datetime.datetime.now().astimezone()


def log(description: str) -> None:
    """Print progress, which ``pytest -s`` shows."""
    print(f"{time.strftime('%X')} {description}", flush=True)


def test_cluster_converges_after_long_churn_without_leaks(
    soak_cluster: SoakCluster, soak: bool, soak_minutes: float
) -> None:
    seconds = soak_minutes * 60 if soak else SECONDS
    kills = 3 if soak else 1
    restarts = max(RESTARTS, int(seconds / 60))
    run = Soak(soak_cluster, seed=int(seconds), sets=SETS if soak else FEWER_SETS)
    until(lambda: len(soak_cluster.cluster.request("GET", "/api/v1/nodes")["items"]) == len(NODES), "there are nodes")
    with contextlib.ExitStack() as stack:
        leader = run.start(BRIEF, stack)
        leader.program.until(ACQUIRED)
        run.churn.fill()
        for number in range(kills):
            standby = run.start(BRIEF if number < kills - 1 else PATIENT, stack)
            run.work(seconds * 0.15 / kills)
            run.kill(leader)
            leader = standby
            run.work(seconds * 0.05 / kills)
            leader.program.until(ACQUIRED)
        standby = run.start(PATIENT, stack)
        managers = leader, standby
        # A relist of everything takes most memory: the first one is part of the warm-up.
        run.work_with_faults(seconds * 0.8 / restarts, restarts=1)
        run.wait_until_desired("After leaders were killed")
        before = [manager.measure() for manager in managers]
        run.work_with_faults(seconds * 0.8 / restarts * (restarts - 1), restarts=restarts - 1)
        run.wait_until_desired("After API servers restarted")
        after: list[Measures] = []

        def no_manager_has_more_tasks() -> bool:
            # The rest of this measurement is asserted, too, since the next one may have requests in flight again.
            after[:] = [manager.measure() for manager in managers]
            return not any(last.tasks - first.tasks for first, last in zip(before, after, strict=True))

        until(no_manager_has_more_tasks, "no manager has more tasks than before", 60)
        serving = [ssl.get_server_certificate(("127.0.0.1", manager.port)) for manager in managers]
        run.churn.clear()
        until(lambda: not run.churn.leftovers(), "nothing is left", 60)
        unknown = run.unknown + sum(manager.unknown() for manager in managers)
        assert [manager.program.stop() for manager in managers] == [0, 0]
    created, twice = soak_cluster.created(), run.created_twice()
    log(f"{run.churn.done.total()} changes: {dict(run.churn.done)}")
    log(f"{created.total()} pods created, {twice.total()} of them twice")
    log(f"{run.restarts} restarts, {run.identity.rotations} rotations, {kills} leaders killed")
    log(f"{soak_cluster.relay.cuts} cuts, {soak_cluster.relay.unanswered} requests without an answer")
    for manager, first, last in zip(managers, before, after, strict=True):
        log(f"{manager.program.name}: {first.words}; at the end {last.words}")
    # The manager itself determines the outcome of a request without a response: see controllers/shared/own_writes.py.
    # The short run only counts: on a busy machine several syncs may pass before a deletion is observed.
    assert not (soak and twice)
    # Old certificates have expired on the way.
    assert unknown == 0
    assert run.forbidden() == []
    for first, last in zip(before, after, strict=True):
        full = RECORDERS if soak else 0
        # The other modules, which a program loads a minute after its start.
        loaded = int(bool(first.tasks["modules"]))
        assert last.objects < first.objects * 1.2 + full * 8200 + loaded * 14_000
        assert last.resident_mb < first.resident_mb * 1.2 + 5 + full * 6 + loaded * 8
    assert serving == [run.identity.serving.decode()] * 2
    for manager in run.managers:
        assert run.unexpected(manager.program.log) == []
