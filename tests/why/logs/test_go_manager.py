"""kube-controller-manager on a real kube-apiserver, with only its audit log: the writers are known, their reasons are
not, which the explanation states. The root cause is still found by owner references."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import until
from tests.real_cluster import missing_programs
from tests.why.catalogue.cluster import ScenarioCluster
from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.scenario import ADMIN, Scenario
from tests.why.logs.cluster import LoggedCluster, kube_controller_manager_cluster

from pilothouse.why.logs import LogSource

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs()),
]

GO = "(kube-controller-manager/v1.20.2)"
METADATA = "metadata"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LoggedCluster]:
    with kube_controller_manager_cluster(METADATA) as recorded_cluster:
        yield recorded_cluster


def test_scaled_down(cluster: ScenarioCluster) -> None:
    scenario = Scenario(cluster, "scaled-down")
    before = scenario.deployment(replicas=3)
    scenario("scale", "deployment", "web", "--replicas=2")
    (deleted,) = set(before) - set(scenario.until_ready(2))
    explanation = scenario.why(f"pod/{deleted}")
    assert_explains(
        explanation,
        "deleted",
        f"""pod/{deleted} by replicaset-controller {GO} < replicaset/web-* by deployment-controller {GO}
            < deployment/web by {ADMIN} scale* [user]""",
    )
    assert "the reason was not recorded" in whole_text(explanation)
    assert f"why replicaset-controller {GO} wrote: no decision log has it" in explanation.unseen


def test_rolled_out(cluster: ScenarioCluster) -> None:
    scenario = Scenario(cluster, "rolled-out")
    (old,) = scenario.deployment(replicas=1)
    scenario("set", "image", "deployment/web", "main=nginx:2")
    scenario.until_gone("pods", old)
    (new,) = scenario.until_ready(1)
    for name, state in ((old, "deleted"), (new, "as desired")):
        assert_explains(
            scenario.why(f"pod/{name}"),
            state,
            f"""pod/{name} by replicaset-controller {GO} < replicaset/web-* by deployment-controller {GO}
                < deployment/web by {ADMIN} set* [user]""",
        )


def test_deleted_with_its_deployment(cluster: ScenarioCluster) -> None:
    scenario = Scenario(cluster, "with-deployment")
    (name,) = scenario.deployment(replicas=1)
    scenario("delete", "deployment", "web")
    scenario.until_gone("pods", name)
    assert_explains(
        scenario.why(f"pod/{name}"),
        "deleted",
        f"""pod/{name} by garbage-collector-controller {GO} < replicaset/web-* by garbage-collector-controller {GO}
            < deployment/web by {ADMIN} delete* [user]""",
    )


def test_deleted_with_its_namespace(cluster: ScenarioCluster) -> None:
    scenario = Scenario(cluster, "with-namespace")
    scenario("run", "lone", "--image=pause")
    scenario.until_ready(1)
    scenario("delete", "namespace", scenario.namespace, "--wait=false")
    scenario.until_gone("namespaces", scenario.namespace)
    assert_explains(
        scenario.why("pod/lone"),
        "deleted",
        f"""pod/lone by namespace-controller {GO} < namespace/{scenario.namespace} by {ADMIN} delete* [user]""",
    )


def test_pods_of_a_job(cluster: ScenarioCluster) -> None:
    scenario = Scenario(cluster, "job")
    scenario("create", "job", "once", "--image=busybox")
    scenario.until(lambda: scenario.objects("pods"), "there is a pod")
    (pod,) = scenario.objects("pods")
    name = pod["metadata"]["name"]
    scenario("delete", "job", "once")
    scenario.until_gone("pods", name)
    assert_explains(
        scenario.why(f"pod/{name}"),
        "deleted",
        f"pod/{name} by garbage-collector-controller {GO} < job/once by {ADMIN} delete* [user]",
    )


def test_only_metadata(cluster: LoggedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without objects in the log, user and time are known."""
    scenario = Scenario(cluster, METADATA)
    before = scenario.deployment(replicas=2)
    scenario("scale", "deployment", "web", "--replicas=1")
    (deleted,) = set(before) - set(scenario.until_ready(1))
    (whole,), log = cluster.sources, tmp_path / "audit.log"

    def written() -> bool:
        """What a policy for this namespace alone would have left."""
        lines = [line for line in Path(whole.path).read_text().splitlines(True) if '"level":"Metadata"' in line]
        log.write_text("".join(line for line in lines if f'"namespace":"{METADATA}"' in line))
        return any('"verb":"delete"' in line and f"/pods/{deleted}" in line for line in lines)

    until(written, "the log has its deletion")
    monkeypatch.setattr(cluster, "sources", [LogSource(whole.kind, str(log))])
    explanation = scenario.why(f"pod/{deleted}")
    assert explanation.state == "deleted"
    assert explanation.steps[0].by == f"replicaset-controller {GO}"
    assert "what writes changed: the audit log has the level Metadata, and no objects" in explanation.unseen
    scaled = scenario.why("deployment/web")
    assert scaled.roots()[0].by.startswith(f"{ADMIN} scale"), whole_text(scaled)
