"""``pilothouse manager`` as a process with kube-apiserver: start, stop, and its secure port."""

import datetime
import re
import signal
import time
from pathlib import Path
from typing import Any

from tests.programs import Program, pilothouse, until
from tests.real.cluster_view import View, replica_set
from tests.real.conftest import apply_v1_36
from tests.real_cluster import RealCluster

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
SHORT = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=1s")
RS_ONLY = "--controllers=replicaset"
ALL_THREE = "--controllers=replicaset,garbagecollector,namespace"


def start(cluster: RealCluster, directory: Path, *flags: str, kubeconfig: Path | None = None) -> Program:
    return pilothouse(directory, "manager", f"--kubeconfig={kubeconfig or cluster.kubeconfig}", *flags)


def test_sigterm_releases_the_lease_and_exits_quickly(real_cluster: RealCluster, directory: Path) -> None:
    with start(
        real_cluster, directory, ALL_THREE, "--secure-port=0", "--leader-elect-resource-name=orderly"
    ) as manager:
        manager.until("acquired lease")
        manager.until("Starting controller")
        signaled_at = time.monotonic()
        assert manager.stop() == 0
        assert time.monotonic() - signaled_at < 5
    spec = real_cluster.request("GET", f"{LEASE}/orderly")["spec"]
    assert spec.get("holderIdentity", "") == ""
    assert spec["leaseDurationSeconds"] == 1
    assert "Traceback" not in manager.log
    assert "never retrieved" not in manager.log
    assert not re.search(r"^[EW]\d{4} ", manager.log, re.MULTILINE)
    messages = {
        e["message"].split("_", 1)[1] for e in leader_events(real_cluster) if "orderly" in e["metadata"]["name"]
    }
    assert {m.split(" ", 1)[1] for m in messages} == {"became leader", "stopped leading"}


def leader_events(cluster: RealCluster) -> list[dict[str, Any]]:
    items = cluster.request("GET", "/api/v1/namespaces/kube-system/events")["items"]
    return [event for event in items if event["reason"] == "LeaderElection"]


def test_lost_lease_exits_with_the_reason(real_cluster: RealCluster, directory: Path) -> None:
    with start(
        real_cluster, directory, RS_ONLY, "--secure-port=0", "--leader-elect-resource-name=lost", *SHORT
    ) as manager:
        manager.until("acquired lease")
        # Another holder is written into the Lease, which the next renewal observes.
        lease = real_cluster.request("GET", f"{LEASE}/lost")
        body = {"spec": {**lease["spec"], "holderIdentity": "thief", "leaseDurationSeconds": 60}}
        real_cluster.request("PATCH", f"{LEASE}/lost", body, content_type="application/merge-patch+json")
        assert manager.wait(15) == 1
    assert '"leaderelection lost" err="lost the lease kube-system/lost: thief holds it"' in manager.log
    assert "Traceback" not in manager.log
    assert real_cluster.request("GET", f"{LEASE}/lost")["spec"]["holderIdentity"] == "thief"


def test_lost_lease_does_not_wait_for_controllers(real_cluster: RealCluster, directory: Path) -> None:
    view = View(real_cluster, real_cluster.namespace("promptly"))
    flags = [RS_ONLY, "--secure-port=0", "--leader-elect-resource-name=prompt", "--controller-shutdown-timeout=60s"]
    with start(real_cluster, directory, *flags, *SHORT) as manager:
        manager.until("Starting controller")
        view.create(replica_set("web", 1000, grace=0))
        until(lambda: len(view.pods()) > 10, "pods come")
        with real_cluster.frozen_api_server():
            manager.until("Failed to renew lease")
            known = time.monotonic()
            assert manager.wait(15) == 1
            assert time.monotonic() - known < 1
    last = manager.log.splitlines()[-1]
    assert last.startswith("E")
    assert "leaderelection lost" in last
    # Other tests' managers shall not go on with it.
    view.kubectl("delete", "rs", "web", "--cascade=background")


def test_hanging_api_server_loses_the_lease_and_second_signal_exits_immediately(
    real_cluster: RealCluster, directory: Path
) -> None:
    short = start(real_cluster, directory, RS_ONLY, "--secure-port=0", "--leader-elect-resource-name=hung", *SHORT)
    long = ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s"]
    flags = [RS_ONLY, "--secure-port=0", "--leader-elect-resource-name=patient", *long]
    patient = start(real_cluster, directory, *flags)
    with short, patient:
        for manager in (short, patient):
            manager.until("Starting controller")
        with real_cluster.frozen_api_server():
            patient.send(signal.SIGTERM)
            assert short.wait(15) == 1
            # It would still give back its lease, and waits for the API server with it.
            assert patient.code is None
            patient.send(signal.SIGTERM)
            assert patient.wait(3) == 128 + signal.SIGTERM
    assert '"leaderelection lost" err="lost the lease kube-system/hung' in short.log
    assert "Traceback" not in short.log + patient.log


def test_startup_waits_for_the_api_server(real_cluster: RealCluster, directory: Path) -> None:
    """And a running program survives an outage."""
    view = View(real_cluster, real_cluster.namespace("restart"))
    flags = ["--secure-port=0", "--leader-elect=false"]
    with start(real_cluster, directory, "--controllers=replicaset", *flags) as early:
        view.create(replica_set("web", 2, grace=0))
        until(lambda: len(view.pods()) == 2, "pods come")
        real_cluster.stop_api_server(kill=True)
        try:
            late = start(real_cluster, directory, "--controllers=garbagecollector", *flags)
            late.until("Waiting for the API server")
        finally:
            real_cluster.start_api_server()
        with late:
            view.scale("web", 4)
            until(lambda: len(view.pods()) == 4, "more pods come after the restart")
            late.until("Starting controller", 15)
            view.kubectl("delete", "rs", "web")
            until(lambda: not view.pods(), "the late one works too")
            assert [early.stop(), late.stop()] == [0, 0]
    assert "Traceback" not in early.log + late.log


def test_error_names_an_expired_certificate(real_cluster: RealCluster, directory: Path) -> None:
    expired = real_cluster.user("late-comer", lifetime=datetime.timedelta(hours=-1))
    with start(real_cluster, directory, "--secure-port=0", kubeconfig=expired) as manager:
        assert manager.wait(15) == 1
    assert manager.log.startswith("Error: ")
    assert "certificate" in manager.log
    assert "expired" in manager.log
    assert manager.log.count("\n") == 1


def test_controllers_use_their_service_accounts(real_cluster: RealCluster, directory: Path) -> None:
    for resource, name in (
        ("clusterroles", "system:kube-controller-manager"),
        ("clusterroles", "system:controller:replicaset-controller"),
        ("clusterroles", "system:controller:generic-garbage-collector"),
        ("clusterroles", "system:controller:namespace-controller"),
    ):
        apply_v1_36(real_cluster, resource, name)
    # The bootstrap binding of role system:kube-controller-manager is for the user of that name.
    kubeconfig = real_cluster.user("system:kube-controller-manager")
    view = View(real_cluster, real_cluster.namespace("accounts"))
    flags = [ALL_THREE, "--use-service-account-credentials", "--secure-port=0"]
    with start(real_cluster, directory, *flags, kubeconfig=kubeconfig) as manager:
        manager.until("Starting controller")
        view.create(replica_set("web", 2, grace=0))
        until(lambda: len(view.pods()) == 2, "pods come")
        fields = next(iter(view.pods().values()))["metadata"]["managedFields"]
        assert {f["manager"] for f in fields} == {"kube-controller-manager"}
        view.kubectl("delete", "rs", "web")
        until(lambda: not view.pods(), "the garbage collector deletes them")
        view.kubectl("delete", "namespace", view.namespace, "--timeout=30s")
        assert manager.stop() == 0
    accounts = real_cluster.request("GET", "/api/v1/namespaces/kube-system/serviceaccounts")["items"]
    names = {account["metadata"]["name"] for account in accounts}
    assert names >= {"replicaset-controller", "generic-garbage-collector", "namespace-controller"}
    assert "forbidden" not in manager.log
    assert "Traceback" not in manager.log
