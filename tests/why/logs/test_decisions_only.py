"""Typical failures, explained from a decision log alone, of which the cluster is gone. Writes of users are not in it:
what they led to must not be attributed to a status that happens to be recorded before."""

import asyncio
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tables import cases
from tests.why.catalogue.expectations import root_texts
from tests.why.cluster import Cluster, deployment, text

from pilothouse.api import wire
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import NODES
from pilothouse.api.meta import Object
from pilothouse.apiserver.resources import built_in_discovery
from pilothouse.cli import why as command
from pilothouse.client import Client
from pilothouse.client.decision_log import Line
from pilothouse.client.history import PATH, recorded_changes
from pilothouse.client.interceptor import Interceptor, Rule, fail
from pilothouse.client.patches import strategic_merge_patch
from pilothouse.env import Env
from pilothouse.machinery.causes import Cause, Trigger
from pilothouse.why import Explanation, Reference, ServerEvidence, explain
from pilothouse.why.logs import DECISIONS, LogEvidence, LogIndex, LogSource, NoServer

LOG = Path(__file__).parent / "decisions.log"
"""Of ``up --no-metrics``: an image that does not exist, a request of 1000 cpus, a program that exits, a quota of one
pod, a drain that a PodDisruptionBudget blocks, and an autoscaler without metrics."""


UNKNOWN = "and by whom is not recorded"


@pytest.fixture
async def evidence() -> AsyncIterator[LogEvidence]:
    index = LogIndex(Env())
    try:
        await index.read([LogSource(DECISIONS, str(LOG))], seconds=30)
        yield LogEvidence(NoServer(built_in_discovery()), index)
    finally:
        index.close()


@pytest.mark.real_loop
@cases(
    "resource, name, line, root",
    {
        "image": (
            "pods",
            "pull-797c7c4cc4-vskjv",
            "container c waits: ImagePullBackOff",
            f"deployment/pull was created or changed (resourceVersion 237), {UNKNOWN}",
        ),
        "image, of the Deployment": (
            "deployments.apps",
            "pull",
            "pod/pull-797c7c4cc4-vskjv, at 20:36:42: node-2: Pending; container c waits: ImagePullBackOff",
            f"deployment/pull was created or its spec was changed, {UNKNOWN}",
        ),
        "unschedulable": (
            "pods",
            "big-65778bfb7-w2vlj",
            "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
            f"deployment/big was created or changed (resourceVersion 242), {UNKNOWN}",
        ),
        "crash loop": (
            "deployments.apps",
            "crash",
            "container c exited with 3 (Error), restart policy Always",
            f"deployment/crash was created or its spec was changed, {UNKNOWN}",
        ),
        "budget": (
            "poddisruptionbudgets.policy",
            "guarded",
            "maxUnavailable 0: 2 must be healthy and 2 are, so 0 disruptions are allowed",
            f"poddisruptionbudget/guarded was created or its spec was changed, {UNKNOWN}",
        ),
        "autoscaler": (
            "horizontalpodautoscalers.autoscaling",
            "hpa",
            "status: 2 replicas, 0 desired; no metric",
            f"horizontalpodautoscaler/hpa was created or changed (resourceVersion 258), {UNKNOWN}",
        ),
    },
)
async def test_of_a_cluster_that_is_gone(evidence: LogEvidence, resource: str, name: str, line: str, root: str) -> None:
    explanation = await explain(evidence, Reference(resource, "default", name))
    assert line in text(explanation)
    assert root_texts(explanation) == [root], text(explanation)
    assert explanation.state.startswith("as recorded at 2026-11-28T20:36:")
    assert "the state of objects, and events: no cluster was asked" in explanation.unseen


@pytest.mark.real_loop
async def test_quota_and_cordon(evidence: LogEvidence) -> None:
    quota = await explain(evidence, Reference("replicasets.apps", "q", "quota-556fc85ddc"))
    assert "exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1" in text(quota)
    assert root_texts(quota) == [f"deployment/quota was created or changed (resourceVersion 284), {UNKNOWN}"]
    node = await explain(evidence, Reference("nodes", "", "node-0"))
    assert "+node.kubernetes.io/unschedulable" in text(node)
    (root,) = root_texts(node)
    assert root.startswith("node/node-0 was changed (resourceVersion ") and root.endswith(UNKNOWN)


@pytest.mark.real_loop
async def test_deleted_by_a_user(evidence: LogEvidence) -> None:
    explanation = await explain(evidence, Reference("pods", "default", "crash-5f86f8cdd5-gjbnd"))
    assert explanation.state == "deleted"
    assert root_texts(explanation) == [f"pod/crash-5f86f8cdd5-gjbnd was marked for deletion, {UNKNOWN}"]


@pytest.mark.real_loop
async def test_deleted_with_its_namespace(tmp_path: Path) -> None:
    """The controller acts only in namespaces that are marked for deletion."""

    def line(second: int, controller: str, key: str, trigger: Trigger, **fields: str) -> bytes:
        time, agent = f"2026-11-28T20:36:{second:02}Z", f"kube-controller-manager/v1 (linux/amd64)/{controller}"
        cause = Cause(controller, key, "a decision", (trigger,))
        values: Any = {"time": time, "code": 200, "user_agent": agent, "cause": cause, "namespace": "n", **fields}
        return msgspec.json.encode(Line(**values)) + b"\n"

    web = {"group": "apps", "resource": "deployments"}
    ready = {**web, "verb": "update", "subresource": "status", "name": "web", "uid": "w", "resource_version": "11"}
    status = {"verb": "update", "resource": "namespaces", "subresource": "status", "name": "n", "uid": "u"}
    left = {**status, "resource_version": "13"}
    gone = {**web, "verb": "deletecollection", "resource_version": "14"}
    lines = (
        line(1, "deployment-controller", "n/web", Trigger("ADDED", "deployments.apps", "n", "web", "10"), **ready),
        line(2, "namespace-controller", "n", Trigger("MODIFIED", "namespaces", "", "n", "12"), **left),
        line(3, "namespace-controller", "n", Trigger("MODIFIED", "namespaces", "", "n", "13"), **gone),
    )
    log = tmp_path / "decisions.log"
    log.write_bytes(b"".join(lines))
    index = LogIndex(Env())
    try:
        await index.read([LogSource(DECISIONS, str(log))], seconds=30)
        evidence = LogEvidence(NoServer(built_in_discovery()), index)
        for reference in (Reference("deployments.apps", "n", "web"), Reference("namespaces", "", "n")):
            explanation = await explain(evidence, reference)
            assert root_texts(explanation) == [f"namespace/n was marked for deletion, {UNKNOWN}"], text(explanation)
    finally:
        index.close()


def test_command_without_a_cluster(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("KUBECONFIG", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = command.run("pilothouse why", words)
        return code, *capsys.readouterr()

    code, out, _ = run("deploy/pull", "--decision-log", str(LOG), "--logs-only")
    assert (code, out.splitlines()[0]) == (0, "deployment/pull in namespace default: as recorded at 20:36:11")
    code, out, _ = run("gadgets.example.com/x", "--decision-log", str(LOG), "--logs-only")
    assert (code, out.splitlines()[1]) == (1, "└─ gadget/x: the logs have no change of it")
    code, _, error = run("deploy/pull", "--decision-log", str(LOG))
    assert code == 1 and error.endswith(". If the cluster is gone, --logs-only explains from the logs alone\n")
    code, _, error = run("deploy/pull", "--logs-only")
    assert (code, error.splitlines()[0]) == (2, "Error: --logs-only needs --decision-log or --audit-log")


RESOURCES = ("pods", "nodes", "deployments.apps", "replicasets.apps")


async def log_of_components(cluster: Cluster, path: Path) -> None:
    """Write the decision log that the plane's components would have written."""
    lines: list[bytes] = []
    for resource in RESOURCES:
        plural, _dot, group = resource.partition(".")
        for change in await recorded_changes(cluster.user, group, plural):
            origin = change.origin
            if origin is None or origin.cause is None:
                continue
            line = Line(
                time=change.time,
                verb=origin.verb,
                group=group,
                resource=plural,
                subresource=origin.subresource,
                namespace=change.namespace,
                name=change.name,
                uid=change.uid,
                resource_version="" if origin.subresource == "binding" else change.resource_version,
                code=201 if origin.verb == "create" else 200,
                user_agent=origin.user_agent,
                cause=origin.cause,
            )
            lines.append(msgspec.json.encode(line) + b"\n")
    path.write_bytes(b"".join(lines))


async def why_without_authors(cluster: Cluster, path: Path, resource: str, name: str) -> Explanation:
    """The explanation with a decision log, and an API server that records no authors."""
    env: Env = cluster.plane.plane.env
    other = Interceptor(cluster.user.transport, env)

    def is_history(_call: object, request: wire.Request) -> bool:
        return request.target.startswith(PATH)

    other.add(Rule(fail(404, "NotFound", "the server could not find the requested resource"), when=is_history))
    client = Client(other, env)
    index = LogIndex(env)
    try:
        await index.read([LogSource(DECISIONS, str(path))], seconds=30)
        evidence = LogEvidence(ServerEvidence(client, await client.discover()), index)
        return await explain(evidence, Reference(resource, "" if resource == "nodes" else "default", name))
    finally:
        index.close()


async def test_writes_of_users_are_not_attributed_to_components(cluster: Cluster, tmp_path: Path) -> None:
    """Neither a new image, a taint, nor the deletion of an owner is in the log of the components."""
    log = tmp_path / "decisions.log"
    await cluster.deployment("web", replicas=1)
    await cluster.deployment("gone", replicas=1)
    (owned,) = [name for name in await cluster.pods() if name.startswith("gone")]
    image: Any = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "nginx:404"}]}}}}
    await cluster.user.patch(DEPLOYMENTS.read_as(Object), "web", strategic_merge_patch(image), "default")
    await cluster.user.delete(DEPLOYMENTS.raw, "gone", "default")
    await asyncio.sleep(60)
    await cluster.patch(NODES, "node-1", {"spec": {"unschedulable": True}}, "")
    await cluster.create(deployment("big", replicas=1, nodeSelector={"kubernetes.io/hostname": "node-1"}))
    await asyncio.sleep(60)
    await log_of_components(cluster, log)
    pods = await cluster.documents("pods", "default")
    pulling = next(pod["metadata"]["name"] for pod in pods if "404" in str(pod["spec"]))
    pending = next(name for name in await cluster.pods() if name.startswith("big"))

    expected = {
        pulling: f"deployment/web was changed (resourceVersion *), {UNKNOWN}",
        owned: f"deployment/gone was deleted, {UNKNOWN}",
        pending: f"node/node-1 was cordoned, {UNKNOWN}",
    }
    for name, root in expected.items():
        explanation = await why_without_authors(cluster, log, "pods", name)
        (text_of_root,) = root_texts(explanation)
        assert fnmatchcase(text_of_root, root), text(explanation)
