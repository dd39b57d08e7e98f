"""``pilothouse why`` without an object: what is not ready, and why."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.embedded_server import EmbeddedServer
from tests.programs import run_pilothouse
from tests.real_cluster import RealCluster
from tests.tables import cases
from tests.why.cluster import Cluster, deployment

from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.cli import main
from pilothouse.cli.not_ready import MAX_EXPLAINED, Overview, overview, overview_lines
from pilothouse.client import Client
from pilothouse.client.interceptor import Interceptor, Rule, fail
from pilothouse.env import Env
from pilothouse.testing import async_plane
from pilothouse.why import ServerEvidence


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[Cluster]:
    """Three nodes, all controllers, and a user."""
    async with async_plane(env=env) as plane:
        yield Cluster(plane)


async def of_namespace(cluster: Cluster, namespace: str = "default") -> Overview:
    """The result for a namespace, by default that of the test; with an empty name for the cluster."""
    discovery = await cluster.user.discover()
    evidence = ServerEvidence(cluster.user, discovery)
    time = cluster.plane.plane.env.now()
    result = await overview(evidence, discovery.preferred_resources(), namespace, time=time)
    assert result is not None
    return result


def names(result: Overview) -> list[str]:
    return [one.explanation.object for one in result.not_ready]


def claim(name: str) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3", "resources": resources}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def with_claim(name: str, claim_name: str) -> dict[str, Any]:
    return deployment(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}])


def job(command: list[str]) -> dict[str, Any]:
    return {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container(command)]}}}


def container(command: list[str]) -> dict[str, Any]:
    return {"name": "c", "image": "busybox", "command": command}


async def test_everything_is_ready(cluster: Cluster) -> None:
    await cluster.deployment()
    lines = overview_lines(await of_namespace(cluster))
    assert lines == ["Everything in namespace default is ready; -A is for all namespaces."]
    assert overview_lines(await of_namespace(cluster, "")) == ["Everything in the cluster is ready."]


async def test_the_root_cause_is_first_and_named_once(cluster: Cluster) -> None:
    await cluster.create(with_claim("db", "data"))
    await cluster.create(claim("data"))
    await cluster.create(deployment("web", image="web:does-not-exist"))
    await asyncio.sleep(20)
    result = await of_namespace(cluster)
    assert names(result) == ["persistentvolumeclaim/data", "deployment/db", "deployment/web"]
    lines = overview_lines(result)
    assert lines[:4] == [
        "3 objects are not ready in namespace default:",
        "",
        "persistentvolumeclaim/data: pending",
        "  persistentvolumeclaim/data has the StorageClass gp3, which does not exist",
    ]
    index = lines.index("deployment/db: rolling out (0 of 2 ready)")
    assert lines[index + 1] == "  the same root cause as persistentvolumeclaim/data"
    index = lines.index("deployment/web: rolling out (0 of 2 ready)")
    assert "does-not-exist" in lines[index + 1]
    assert "can't be pulled" in lines[index + 1]
    assert lines[-1] == "More about one of them: pilothouse why persistentvolumeclaim/data -n default"


async def test_other_namespaces_are_of_the_cluster(cluster: Cluster) -> None:
    await cluster.user.create(NAMESPACES, {"metadata": {"name": "other"}})
    await cluster.user.create(PERSISTENT_VOLUME_CLAIMS, claim("data"), "other")
    await asyncio.sleep(20)
    assert names(await of_namespace(cluster)) == []
    lines = overview_lines(await of_namespace(cluster, ""))
    assert lines[0] == "1 object is not ready in the cluster:"
    assert lines[2] == "persistentvolumeclaim/data in namespace other: pending"


async def test_more_objects_than_are_explained(cluster: Cluster) -> None:
    for number in range(MAX_EXPLAINED + 12):
        await cluster.create(claim(f"data-{number:02}"))
    await asyncio.sleep(20)
    result = await of_namespace(cluster)
    assert len(result.not_ready) == MAX_EXPLAINED
    assert len(result.not_explained) == 12
    lines = overview_lines(result)
    assert lines[0] == "22 objects are not ready in namespace default:"
    (line,) = [line for line in lines if "not explained here" in line]
    assert line.startswith(
        "12 more, not explained here: persistentvolumeclaim/data-10, persistentvolumeclaim/data-11, "
    )
    assert line.endswith(" and 2 others")


async def test_pods_that_have_ended_are_their_owners_business(cluster: Cluster) -> None:
    """A Job that is complete after a failure, and a Job of a CronJob that runs."""
    manifest = {"apiVersion": "batch/v1", "metadata": {"name": "done"}}
    done = job(["true"]) | {"backoffLimit": 3}
    done["template"]["metadata"] = {"annotations": {"simulated.pilothouse.dev/exit-code": "0"}}
    await cluster.create(manifest | {"kind": "Job", "spec": done})
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job(["sleep", "3600"])}, "concurrencyPolicy": "Forbid"}
    await cluster.create(manifest | {"kind": "CronJob", "metadata": {"name": "often"}, "spec": cron})
    await asyncio.sleep(150)
    assert names(await of_namespace(cluster)) == []


async def test_a_failed_job_of_a_cron_job(cluster: Cluster) -> None:
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job(["false"])}}
    await cluster.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often"}, "spec": cron})
    await asyncio.sleep(150)
    (one, *_) = (await of_namespace(cluster)).not_ready
    assert one.explanation.object.startswith("job/often-")
    assert (one.progress, one.explanation.state) == ("failed", "failed")


async def test_a_running_job_makes_progress_and_is_last(cluster: Cluster) -> None:
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "long"}, "spec": job(["sleep", "3600"])}
    await cluster.create(manifest)
    await cluster.create(deployment("web", image="web:does-not-exist"))
    await asyncio.sleep(20)
    result = await of_namespace(cluster)
    assert names(result) == ["deployment/web", "job/long"]
    assert "job/long: 0 of 1 succeeded" in overview_lines(result)


async def test_deleted_pods_of_a_silent_node(cluster: Cluster) -> None:
    """Their Deployment has others, and is ready."""
    await cluster.deployment(replicas=3)
    pods = (await cluster.user.list(PODS, "default")).items
    node = pods[0].spec.node_name
    await cluster.patch(NODES, node, {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}, "")
    await asyncio.sleep(60)
    assert names(await of_namespace(cluster)) == ["deployment/web"]
    await asyncio.sleep(400)
    lines = overview_lines(await of_namespace(cluster))
    assert lines[2] == f"pod/{pods[0].metadata.name}: terminating"
    assert f"node/{node} does not report" in lines[3]
    lines = overview_lines(await of_namespace(cluster, ""))
    assert lines[2] == f"node/{node}: not ready"
    assert "  the same root cause as" in "\n".join(lines)


async def test_a_pod_within_its_grace_period(cluster: Cluster) -> None:
    await cluster.deployment()
    (first, *_) = await cluster.pods()
    await cluster.patch(PODS, first, {"metadata": {"annotations": {"simulated.pilothouse.dev/stop-delay": "20s"}}})
    await cluster.user.delete(PODS, first, "default")
    await asyncio.sleep(10)
    assert first in await cluster.pods()
    assert names(await of_namespace(cluster)) == []


async def test_a_pod_within_its_grace_period_on_a_silent_node(cluster: Cluster) -> None:
    """It will not end, whatever its grace period is."""
    await cluster.deployment(replicas=1)
    (name,) = await cluster.pods()
    node = (await cluster.user.get(PODS, name, "default")).spec.node_name
    await cluster.patch(NODES, node, {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}, "")
    await asyncio.sleep(60)
    await cluster.user.delete(PODS, name, "default")
    await asyncio.sleep(5)
    lines = overview_lines(await of_namespace(cluster))
    assert lines[2] == f"pod/{name}: terminating"
    assert lines[-1] == f"More about it: pilothouse why pod/{name} -n default"


async def test_a_namespace_that_is_being_deleted(cluster: Cluster) -> None:
    await cluster.user.create(NAMESPACES, {"metadata": {"name": "other"}})
    held = {"metadata": {"name": "held", "finalizers": ["example.com/x"]}}
    await cluster.user.create(CONFIG_MAPS, held, "other")
    await cluster.user.delete(NAMESPACES, "other")
    await asyncio.sleep(20)
    assert names(await of_namespace(cluster, "other")) == ["namespace/other", "configmap/held"]


async def test_a_time_before_the_history(cluster: Cluster) -> None:
    """Nothing is known then, which does not mean that everything was ready."""
    transport = Interceptor(cluster.user.transport, cluster.plane.plane.env)
    transport.add(Rule(fail(410, "Expired", "too old"), verb="list"))
    discovery = await cluster.user.discover()
    evidence = ServerEvidence(Client(transport, cluster.plane.plane.env), discovery, at=1)
    time = cluster.plane.plane.env.now()
    assert await overview(evidence, discovery.preferred_resources(), "default", time=time) is None
    assert list(evidence.unseen) == ["states older than the API server's history"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server without controllers."""
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_the_command(server: EmbeddedServer, tmp_path: Path) -> None:
    """Text, JSON, a namespace that does not exist, and a user who may read nothing."""
    kubeconfig = f"--kubeconfig={server.kubeconfig('admin', ('system:masters',))}"
    done = run_pilothouse(tmp_path, "why", kubeconfig)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Everything in namespace default is ready; -A is for all namespaces.\n"
    done = run_pilothouse(tmp_path, "why", "-A", "-o=json", kubeconfig)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"namespace", "notReady", "notExplained", "unseen"}
    done = run_pilothouse(tmp_path, "why", "-n=none", kubeconfig)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "There is no namespace none in context x.\n"
    done = run_pilothouse(tmp_path, "why", f"--kubeconfig={server.kubeconfig('eve', ())}")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'User "eve" cannot list resource "pods"' in done.stderr


def test_in_front_of_kube_apiserver(real_cluster: RealCluster, tmp_path: Path) -> None:
    """Its resources, without the origin of their changes. No controllers run."""
    namespace = real_cluster.namespace("not-ready")
    real_cluster.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web"))
    done = run_pilothouse(tmp_path, "why", f"-n={namespace}", f"--kubeconfig={real_cluster.kubeconfig}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"1 object is not ready in namespace {namespace}:"
    assert re.fullmatch(r"deployment/web: .* \(waiting for the spec update to be observed\)", lines[2])
    assert lines[-2:] == ["Not seen:", "  who changed what: this API server keeps no record of it"]


@cases(
    "words, message",
    {
        "-A with an object": (["why", "pod/a", "-A"], "--all-namespaces is for what is not ready, without TYPE/NAME"),
        "logs only": (["why", "--logs-only", "--audit-log=x"], "--logs-only needs TYPE/NAME"),
        "a type": (["why", "pods"], "expected TYPE/NAME, got pods"),
    },
)
def test_invalid_command_lines(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err
