"""pilothouse and kube-controller-manager with one Lease: one leads, the other takes over, no pod is created
twice."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.programs import Program, kube_controller_manager, pilothouse, until
from tests.real.cluster_view import PodHistory, View, replica_set
from tests.real_cluster import RealCluster, RequestFailed
from tests.tables import cases

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
SHORT = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=1s")
ACQUIRED = "uccessfully acquired lease"
WANTED = 90

Start = Callable[[RealCluster, Path], Program]


def pilothouse_manager(cluster: RealCluster, directory: Path) -> Program:
    """pilothouse, with the ReplicaSet controller only, and the default rate limits."""
    flags = [f"--kubeconfig={cluster.kubeconfig}", "--controllers=replicaset", "--secure-port=0", "--v=2", *SHORT]
    return pilothouse(directory, "manager", *flags)


def upstream_manager(cluster: RealCluster, directory: Path) -> Program:
    """kube-controller-manager."""
    return kube_controller_manager(cluster, directory, "--v=2", *SHORT)


def forget_leader(cluster: RealCluster) -> None:
    """Delete the Lease of the previous leader, which was killed and could not release it."""
    try:
        cluster.request("DELETE", LEASE)
    except RequestFailed as error:
        if error.status != 404:
            raise


@cases(
    "first, second",
    {
        "pilothouse to kube-controller-manager": (pilothouse_manager, upstream_manager),
        "kube-controller-manager to pilothouse": (upstream_manager, pilothouse_manager),
    },
)
def test_standby_takes_over_from_a_killed_leader_without_duplicate_pods(
    view: View, directory: Path, first: Start, second: Start
) -> None:
    forget_leader(view.cluster)
    with PodHistory(view) as history, first(view.cluster, directory) as leader:
        leader.until(ACQUIRED)
        with second(view.cluster, directory) as standby:
            # At 20 requests per second after a burst of 30 this takes seconds: the leader is killed in between.
            view.create(replica_set("web", WANTED))
            until(lambda: len(history.created) > 40, "the leader creates pods")
            assert ACQUIRED not in standby.log
            leader.kill()
            at_death = len(history.created)
            standby.until(ACQUIRED, 20)
            until(lambda: view.status("web").get("replicas") == WANTED, "the other one creates the rest", 30)
            assert at_death < WANTED
            assert len(view.pods()) == WANTED
            # No pod is created or deleted any more.
            time.sleep(0.5)
            assert len(history.created) == WANTED, "each was created once"
            assert history.most == WANTED
            lease = view.cluster.request("GET", LEASE)["spec"]
            assert lease["leaseTransitions"] >= 1
    view.clear()


def test_graceful_shutdown_releases_the_lease(view: View, directory: Path) -> None:
    long = ("--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=1s")
    flags = [f"--kubeconfig={view.cluster.kubeconfig}", "--controllers=replicaset", "--secure-port=0", *long]
    forget_leader(view.cluster)
    with PodHistory(view) as history, pilothouse(directory, "manager", *flags) as leader:
        leader.until(ACQUIRED)
        with kube_controller_manager(view.cluster, directory, *long) as standby:
            view.create(replica_set("web", WANTED))
            until(lambda: len(history.created) > 40, "the leader creates pods")
            standby.until("attempting to acquire leader lease")
            holder = view.cluster.request("GET", LEASE)["spec"]["holderIdentity"]
            leader.send(signal.SIGTERM)
            assert leader.wait(10) == 0
            stopped_at = time.monotonic()
            # Released, or already acquired by the standby, which retries all the time.
            assert view.cluster.request("GET", LEASE)["spec"].get("holderIdentity", "") != holder
            standby.until(ACQUIRED, 20)
            # Its pause between two looks is at most 2.2 s; the lease itself would have lasted a minute.
            assert time.monotonic() - stopped_at < 10
            until(lambda: view.status("web").get("replicas") == WANTED, "the other one creates the rest", 30)
            assert len(history.created) == WANTED
            assert history.most == WANTED
            standby.kill()
    view.clear()
    forget_leader(view.cluster)
