"""Quotas, certificate requests, budgets without pods, DaemonSets without nodes, flow control, init containers."""

import asyncio
import json
from typing import Any

from tests import custom_resources
from tests.certificate_requests import document, request_pem
from tests.tables import cases
from tests.why.cluster import Cluster, deployment, text

from pilothouse.api.apps import DAEMON_SETS, STATEFUL_SETS
from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS
from pilothouse.api.core import RESOURCE_QUOTAS
from pilothouse.api.meta import Object
from pilothouse.client.patches import merge_patch
from pilothouse.why import AS_DESIRED, NO_CONDITION, NO_STATUS, STORED


def _object(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


async def test_quota(cluster: Cluster) -> None:
    await cluster.create(_object("v1", "ResourceQuota", "small", spec={"hard": {"pods": "2", "configmaps": "10"}}))
    await asyncio.sleep(5)
    await cluster.deployment("web", replicas=3)
    explanation = await cluster.why("resourcequotas", "small")
    assert explanation.state == "used up"
    (step,) = explanation.steps
    assert step.text == "resourcequota/small has no room for more pods"
    assert step.table == ["configmaps: 1 of 10 used", "pods: 2 of 2 used", "deployment/web: 2 pods"]
    await cluster.patch(RESOURCE_QUOTAS, "small", {"spec": {"hard": {"pods": "20"}}})
    await asyncio.sleep(5)
    explanation = await cluster.why("resourcequotas", "small")
    assert explanation.state == AS_DESIRED
    assert explanation.steps[0].text == 'resourcequota/small changed: spec.hard.pods: "2" -> "20"'
    assert "configmaps: 1 of 10 used" in explanation.steps[0].table


async def test_condition_of_flow_schemas(cluster: Cluster) -> None:
    spec = {"priorityLevelConfiguration": {"name": "nosuch"}, "matchingPrecedence": 1000}
    await cluster.create(_object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "mine", spec=spec))
    await asyncio.sleep(5)
    explanation = await cluster.why("flowschemas.flowcontrol.apiserver.k8s.io", "mine", "")
    assert explanation.state == "dangling", text(explanation)
    level = await cluster.why("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "exempt", "")
    assert level.state == AS_DESIRED


async def test_budget_without_pods(cluster: Cluster) -> None:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "bare"}}}
    await cluster.create(_object("policy/v1", "PodDisruptionBudget", "bare", spec=spec))
    await asyncio.sleep(5)
    explanation = await cluster.why("poddisruptionbudgets.policy", "bare")
    assert explanation.state == "selects no pod"
    assert explanation.steps[0].text == (
        "poddisruptionbudget/bare protects no pod: none in the namespace has the labels of its selector"
    )
    pod = _object("v1", "Pod", "bare", spec={"containers": [{"name": "c", "image": "nginx"}]})
    pod["metadata"]["labels"] = {"app": "bare"}
    await cluster.create(pod)
    await asyncio.sleep(10)
    explanation = await cluster.why("poddisruptionbudgets.policy", "bare")
    assert explanation.state == "allows no eviction"
    assert "counts none of the 1 pod that it selects" in explanation.steps[0].text
    assert explanation.steps[0].table[0].startswith("UnmanagedPods: ")


def _daemon_set(name: str, **pod_spec: Any) -> dict[str, Any]:
    manifest = deployment(name, **pod_spec)
    del manifest["spec"]["replicas"]
    return manifest | {"kind": "DaemonSet"}


async def test_daemon_set_without_nodes(cluster: Cluster) -> None:
    await cluster.create(_daemon_set("agent", nodeSelector={"disk": "ssd"}))
    await asyncio.sleep(5)
    explanation = await cluster.why("daemonsets.apps", "agent")
    assert explanation.state == "on no node"
    assert explanation.steps[0].table == ["left out, 3 nodes: not selected by disk=ssd (node-0, node-1, node-2)"]
    assert explanation.roots()[0].text == "daemonset/agent was created"


async def test_nodes_of_a_pod_for_one_node(cluster: Cluster) -> None:
    manifest = _daemon_set("big")
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    await cluster.create(manifest)
    await asyncio.sleep(5)
    (name, *_others) = await cluster.pods()
    table = (await cluster.why("pods", name)).steps[0].table
    assert [line.partition(":")[0] for line in table if line[0].isdigit()] == ["2 nodes", "1 node"], table


async def test_classes_that_do_not_exist(cluster: Cluster) -> None:
    await cluster.create(deployment("web", replicas=1, priorityClassName="high"))
    await cluster.create(deployment("fast", replicas=1, runtimeClassName="quick"))
    await asyncio.sleep(5)
    web = await cluster.why("deployments.apps", "web")
    assert web.steps[0].because[0].because[0].text == "priorityclass/high is not there, and no change of it is known"
    fast = await cluster.why("deployments.apps", "fast")
    assert fast.steps[0].because[0].because[0].text == "runtimeclass/quick is not there, and no change of it is known"


@cases(
    "fields",
    {"a simple one": {}, "one with a restart policy of its own": {"restartPolicy": "OnFailure"}},
)
async def test_running_init_container(cluster: Cluster, fields: dict[str, Any]) -> None:
    init = {"name": "prepare", "image": "busybox", "command": ["sleep", "100000"], **fields}
    spec = {"initContainers": [init], "containers": [{"name": "c", "image": "nginx"}]}
    await cluster.create(_object("v1", "Pod", "slow", spec=spec))
    await asyncio.sleep(5)
    (step,) = (await cluster.why("pods", "slow")).steps
    assert step.text.startswith("pod/slow waits until its init container prepare ends, which runs since ")


async def test_certificate_requests(cluster: Cluster) -> None:
    resource = "certificatesigningrequests.certificates.k8s.io"
    pem = request_pem("jane", ())
    kubernetes, other = "kubernetes.io/kube-apiserver-client", "example.com/signer"
    for name, signer in (("new", kubernetes), ("denied", kubernetes), ("approved", kubernetes), ("other", other)):
        await cluster.create(document(name, pem, signer))

    async def decide(name: str, type_: str) -> None:
        entry = {"type": type_, "status": "True", "reason": "ByHand", "message": "checked"}
        kind = CERTIFICATE_SIGNING_REQUESTS.read_as(Object)
        patch = merge_patch({"status": {"conditions": [entry]}})
        await cluster.user.patch(kind, name, patch, subresource="approval")

    await decide("denied", "Denied")
    await decide("approved", "Approved")
    await decide("other", "Approved")
    await asyncio.sleep(10)

    new = await cluster.why(resource, "new", "")
    assert new.state == "pending"
    assert new.steps[0].text.endswith(f"waits until somebody approves or denies it (signer {kubernetes})")
    denied = await cluster.why(resource, "denied", "")
    assert denied.state == "denied"
    assert denied.steps[0].text == "certificatesigningrequest/denied is denied: ByHand: checked"
    assert denied.roots()[0].text == "certificatesigningrequest/denied was denied"
    assert denied.roots()[0].root == "user"
    approved = await cluster.why(resource, "approved", "")
    assert "certificatesigningrequest-signing-controller has not signed it" in approved.steps[0].text
    waiting = await cluster.why(resource, "other", "")
    assert waiting.state == "not issued"
    assert "waits for the signer example.com/signer" in waiting.steps[0].text
    assert waiting.roots()[0].text == "certificatesigningrequest/other was approved"
    status = {"conditions": [{"type": "Failed", "status": "True", "reason": "NoKey", "message": "no key"}]}
    await cluster.plane.patch(
        "certificates.k8s.io/v1", "CertificateSigningRequest", "new", {"status": status}, subresource="status"
    )
    failed = await cluster.why(resource, "new", "")
    assert failed.state == "failed"
    assert failed.steps[0].text == "certificatesigningrequest/new has failed: NoKey: no key"


async def test_pods_that_the_update_strategy_keeps(cluster: Cluster) -> None:
    for name, strategy in (("lazy", {"type": "OnDelete"}), ("canary", {"rollingUpdate": {"partition": 1}})):
        manifest = deployment(name, replicas=2) | {"kind": "StatefulSet"}
        manifest["spec"] |= {"serviceName": "none", "updateStrategy": strategy}
        await cluster.create(manifest)
    await asyncio.sleep(20)
    for name in ("lazy", "canary"):
        template = {"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}}
        await cluster.patch(STATEFUL_SETS, name, {"spec": {"template": template}})
    await asyncio.sleep(30)
    lazy = await cluster.why("statefulsets.apps", "lazy")
    assert lazy.state == AS_DESIRED
    assert lazy.steps[0].table[-1].startswith("update strategy OnDelete: 2 pods of revision lazy-")
    canary = await cluster.why("statefulsets.apps", "canary")
    assert canary.state == AS_DESIRED
    assert canary.steps[0].table[-1].startswith("partition 1: 1 pod of revision canary-")


async def test_pods_that_a_daemon_set_keeps(cluster: Cluster) -> None:
    agent = _daemon_set("agent")
    agent["spec"]["updateStrategy"] = {"type": "OnDelete"}
    await cluster.create(agent)
    await asyncio.sleep(20)
    template = {"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}}
    await cluster.patch(DAEMON_SETS, "agent", {"spec": {"template": template}})
    await asyncio.sleep(20)
    explanation = await cluster.why("daemonsets.apps", "agent")
    assert explanation.state == AS_DESIRED, text(explanation)
    (step,) = explanation.steps
    assert step.text == "daemonset/agent should have a pod on 3 of 3 nodes, 3 are ready, 0 up to date"
    assert step.table[-1].startswith("update strategy OnDelete: ")
    assert step.because[0].text.startswith("daemonset/agent changed: ")


async def test_object_whose_kopf_handler_fails(cluster: Cluster) -> None:
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    progress = {
        "started": "2026-11-29T14:00:00.000000",
        "delayed": "2026-11-29T14:01:00.000000",
        "purpose": "create",
        "retries": 1,
        "success": False,
        "failure": False,
        "message": "'replicaz'",
    }
    done = {"retries": 1, "success": True, "failure": False}
    widget = _object("example.com/v1", "Widget", "tea")
    widget["metadata"]["annotations"] = {
        "kopf.zalando.org/create": json.dumps(progress),
        "kopf.zalando.org/resume": json.dumps(done),
        "kopf.zalando.org/last-handled-configuration": '{"spec":{"retries":"\\"retries\\""}}\n',
    }
    await cluster.create(widget)
    explanation = await cluster.why("widgets.example.com", "tea")
    assert explanation.state == "handler failed"
    (step,) = explanation.steps
    assert step.text == "widget/tea is not handled: kopf's handler create has failed once: 'replicaz'"
    assert step.table == ["it is called again at 2026-11-29T14:01:00.000000"]
    assert "was created" in step.because[0].text


@cases(
    "handled, lines",
    {
        "this spec": ('{"spec":{"replicas":1}}', ["kopf's handlers of this spec have ended"]),
        "an earlier spec": ('{"spec":{"replicas":2}}', []),
        "no JSON": ("{", []),
        "another type": ("[]", []),
        "too deep": ("[" * 100_000, []),
    },
)
async def test_object_that_kopf_has_handled(cluster: Cluster, handled: str, lines: list[str]) -> None:
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    widget = _object("example.com/v1", "Widget", "tea")
    widget["spec"] = {"replicas": 1}
    widget["metadata"]["annotations"] = {"kopf.zalando.org/last-handled-configuration": f"{handled}\n"}
    await cluster.create(widget)
    explanation = await cluster.why("widgets.example.com", "tea")
    assert explanation.state == NO_STATUS
    assert explanation.steps[0].table == lines


async def test_kopf_handler_that_waits_for_its_subhandlers(cluster: Cluster) -> None:
    """kopf records that as another attempt, with the text of an exception without a message."""
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    waiting = {"retries": 2, "success": False, "failure": False, "message": "None", "subrefs": ["create/a"]}
    widget = _object("example.com/v1", "Widget", "tea")
    widget["metadata"]["annotations"] = {"kopf.zalando.org/create": json.dumps(waiting)}
    await cluster.create(widget)
    assert (await cluster.why("widgets.example.com", "tea")).state == STORED
    failed = {"retries": 1, "success": False, "failure": False, "message": "no disk"}
    annotations = {"kopf.zalando.org/create.a": json.dumps(failed)}
    await cluster.plane.patch("example.com/v1", "Widget", "tea", {"metadata": {"annotations": annotations}})
    (step,) = (await cluster.why("widgets.example.com", "tea")).steps
    assert step.text == "widget/tea is not handled: kopf's handler create.a has failed once: no disk"


async def test_message_of_a_client_in_a_kopf_handler(cluster: Cluster) -> None:
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    body = {"kind": "Status", "message": 'Deployment in version "v1" cannot be handled', "code": 400}
    message = (
        "(400)\nReason: Bad Request\nHTTP response headers: HTTPHeaderDict({'audit-id': '1'})\n"
        f"HTTP response body: {json.dumps(body)}\n"
    )
    for name, text_ in (("client", message), ("long", "x" * 600), ("cut", "HTTP response body: {")):
        widget = _object("example.com/v1", "Widget", name)
        widget["metadata"]["annotations"] = {"kopf.zalando.org/create": json.dumps({"retries": 2, "message": text_})}
        await cluster.create(widget)
    messages = [
        (await cluster.why("widgets.example.com", name)).steps[0].text.partition(" 2 times: ")[2]
        for name in ("client", "long", "cut")
    ]
    assert messages == [
        '(400) Reason: Bad Request Deployment in version "v1" cannot be handled',
        "x" * 500 + "…",
        "{",
    ]


async def test_object_without_conditions_that_owns_a_deployment(cluster: Cluster) -> None:
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    await cluster.create(_object("example.com/v1", "Widget", "tea", spec={"size": 1}, status={"ready": 0}))
    widget = await cluster.plane.get("example.com/v1", "Widget", "tea")
    assert (await cluster.why("widgets.example.com", "tea")).state == NO_CONDITION
    owned = deployment("tea", replicas=1)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": "tea", "uid": widget["metadata"]["uid"]}
        | {"controller": True}
    ]
    owned["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500"}}
    await cluster.create(owned)
    await asyncio.sleep(5)
    explanation = await cluster.why("widgets.example.com", "tea")
    assert explanation.state == "what it owns is not as desired"
    assert "Insufficient cpu" in text(explanation)


@cases(
    "fields, state",
    {
        "texts": ({"spec": "x", "status": "ok"}, STORED),
        "a number of conditions": ({"status": {"conditions": 5}}, NO_CONDITION),
        "conditions by type": ({"status": {"conditions": {"Ready": True}}}, NO_CONDITION),
        "types of conditions": ({"status": {"conditions": ["Ready"], "reason": {"a": 1}}}, NO_CONDITION),
        "a text as generation": ({"status": {"observedGeneration": "x"}}, NO_CONDITION),
        "a text as error": ({"status": {"detachError": "no"}}, NO_CONDITION),
    },
)
async def test_custom_resources_have_any_type_in_their_fields(
    cluster: Cluster, fields: dict[str, Any], state: str
) -> None:
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    widget = _object("example.com/v1", "Widget", "tea", **fields)
    widget["metadata"]["finalizers"] = ["example.com/x"]
    await cluster.create(widget)
    assert (await cluster.why("widgets.example.com", "tea")).state == state
    await cluster.plane.patch("example.com/v1", "Widget", "tea", {"spec": None, "status": {"phase": "Failed"}})
    await cluster.plane.patch("example.com/v1", "Widget", "tea", {"metadata": {"labels": {"a": "b"}}, **fields})
    assert (await cluster.why("widgets.example.com", "tea")).state == state
    await cluster.plane.delete("example.com/v1", "Widget", "tea")
    assert (await cluster.why("widgets.example.com", "tea")).state == "terminating"


async def test_annotation_of_kopf_that_is_nested_too_deeply(cluster: Cluster) -> None:
    await cluster.create(custom_resources.definition("Widget"))
    await asyncio.sleep(5)
    widget = _object("example.com/v1", "Widget", "tea")
    widget["metadata"]["annotations"] = {"kopf.zalando.org/create": '{"retries":' + "[" * 100_000}
    await cluster.create(widget)
    assert (await cluster.why("widgets.example.com", "tea")).state == STORED
