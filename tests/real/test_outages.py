"""kube-apiserver crashes and hangs while the manager runs; the manager recovers."""

import re
import time
from pathlib import Path

import pytest
from tests.programs import pilothouse, until
from tests.real.cluster_view import View, replica_set
from tests.real_cluster import RealCluster

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/outage"


@pytest.mark.parametrize("accounts", [False, True], ids=["shared identity", "service accounts"])
def test_manager_survives_a_crashed_and_a_hanging_api_server(
    real_cluster: RealCluster, directory: Path, accounts: bool, soak: bool
) -> None:
    view = View(real_cluster, real_cluster.namespace("outage"))
    with pilothouse(
        directory,
        "manager",
        f"--kubeconfig={real_cluster.kubeconfig}",
        "--controllers=replicaset,garbagecollector,namespace",
        f"--use-service-account-credentials={str(accounts).lower()}",
        "--leader-elect-resource-name=outage",
        # A busy machine may take longer than upstream's ten seconds to start an API server.
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=50s",
        "--secure-port=0",
    ) as manager:
        view.create(replica_set("web", 2, grace=0))
        until(lambda: len(view.pods()) == 2, "pods come")
        for round_ in range(1 + soak):
            real_cluster.stop_api_server(kill=True)
            time.sleep(1)
            real_cluster.start_api_server()
            view.scale("web", 3 + round_)
            until(lambda wanted=3 + round_: len(view.pods()) == wanted, "pods come after a crash", 60)  # type: ignore[misc]
        with real_cluster.frozen_api_server():
            time.sleep(4)
        view.scale("web", 1)
        until(lambda: len(view.pods()) == 1, "pods go after a hang", 60)
        view.kubectl("delete", "rs", "web")
        until(lambda: not view.pods(), "the garbage collector has its graph", 60)
        assert real_cluster.request("GET", LEASE)["spec"].get("leaseTransitions", 0) <= 2 * accounts
        assert manager.stop() == 0
    assert manager.log.count("Successfully acquired lease") == 1, "the lease was never lost"
    assert "Traceback" not in manager.log
    assert not re.search("panic|never retrieved|was destroyed", manager.log)
