"""Requests with a node's credentials to a server with ``--authorization-mode=RBAC`` and defaults."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.apiserver.api import STRATEGIC, Answer, Api, pod
from tests.stores import new_store
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.admission.names import default_plugins
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.controllermanager.options import Options
from pilothouse.env import Env
from pilothouse.nodes.stages import load_stages
from pilothouse.plane import Plane, PlaneOptions

MODES = "Node,RBAC"
PLUGINS = default_plugins(authorization=MODES, service_accounts=False)
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
PODS = "/api/v1/namespaces/default/pods"
SECRET = "/api/v1/namespaces/default/secrets/password"
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
WITH_SECRET = [{"name": "v", "secret": {"secretName": "password"}}]


async def attacked(env: Env, attack: Callable[[Api], Awaitable[Answer]]) -> Answer:
    """The answer to what the node n1 does, in a cluster with a node n2, a pod on each, and a Secret of neither."""
    api = Api(env, ServerOptions(admission_plugins=PLUGINS))
    handler_chain = HandlerChain(api.server, address="", authorization=MODES)
    await handler_chain.start()
    await api.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    await api.create("/api/v1/nodes", {"metadata": {"name": "n2"}})
    await api.create("/api/v1/namespaces/default/secrets", {"metadata": {"name": "password"}, "data": {"p": "eHg="}})
    await api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    await api.create(PODS, pod("mine", nodeName="n1", serviceAccountName="default"))
    await api.create(PODS, pod("theirs", nodeName="n2", serviceAccountName="default"))
    api.transport = api.server.transport("system:node:n1", ("system:nodes", "system:authenticated"))
    return await attack(api)


def forbidden_message(text: str) -> str:
    return f'is forbidden: node "n1" {text}'


async def evict(api: Api, name: str) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await api.post(f"{PODS}/{name}/eviction", body)


async def token(api: Api, name: str, **spec: Any) -> Answer:
    uid = json.loads(api.store.staged(f"/pods/default/{name}").value)["metadata"]["uid"]  # type: ignore[union-attr]
    ref = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return await api.post(f"{ACCOUNT}/token", {"spec": {"boundObjectRef": ref, **spec}})


@cases(
    "attack, words",
    {
        "PATCH of another node": (
            lambda api: api.patch("/api/v1/nodes/n2", {"metadata": {"labels": {"a": "b"}}}),
            forbidden_message('is not allowed to modify node "n2"'),
        ),
        "PATCH of another node's status": (
            lambda api: api.patch("/api/v1/nodes/n2/status", {"status": {"conditions": []}}, STRATEGIC),
            forbidden_message('is not allowed to modify node "n2"'),
        ),
        "taints of the own Node": (
            lambda api: api.patch("/api/v1/nodes/n1", {"spec": {"taints": None}}),
            forbidden_message("is not allowed to modify taints"),
        ),
        "DELETE of another node's pod": (
            lambda api: api.delete(f"{PODS}/theirs"),
            forbidden_message("can only delete pods with spec.nodeName set to itself"),
        ),
        "eviction of another node's pod": (
            lambda api: evict(api, "theirs"),
            "is forbidden: node n1 can only evict pods with spec.nodeName set to itself",
        ),
        "the status of another node's pod": (
            lambda api: api.patch(f"{PODS}/theirs/status", {"status": {"phase": "Failed"}}),
            forbidden_message("can only update pod status for pods with spec.nodeName set to itself"),
        ),
        "a pod that names a Secret": (
            lambda api: api.post(PODS, pod("spy", nodeName="n1", volumes=WITH_SECRET)),
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
        ),
        "mirror pod without owner": (
            lambda api: api.post(PODS, pod("spy", metadata=MIRROR, nodeName="n1", volumes=WITH_SECRET)),
            forbidden_message("can only create pods with an owner reference set to itself"),
        ),
        "a token that outlives its pods": (
            lambda api: api.post(f"{ACCOUNT}/token", {"spec": {}}),
            "node requested token not bound to a pod",
        ),
        "a token of another node's pod": (
            lambda api: token(api, "theirs"),
            "node requested token bound to a pod scheduled on a different node",
        ),
        "token with an audience of no pod volume": (
            lambda api: token(api, "mine", audiences=["vault"]),
            'audience "vault" not found in pod spec volume, system:node:n1 is not authorized to request tokens for '
            "this audience",
        ),
    },
)
async def test_requests_rejected_for_a_node(env: Env, attack: Callable[[Api], Awaitable[Answer]], words: str) -> None:
    answer = await attacked(env, attack)
    assert answer.status == 403, answer.text
    assert words in answer.message


async def test_node_cannot_read_unrelated_secrets(env: Env) -> None:
    async def attack(api: Api) -> Answer:
        await api.post(PODS, pod("spy", nodeName="n1", volumes=WITH_SECRET))
        return await api.get(SECRET)

    answer = await attacked(env, attack)
    assert (answer.status, answer.body.get("data")) == (403, None)


@cases(
    "work, status",
    {
        "label": (lambda api: api.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"a": "b"}}}), 200),
        "status": (lambda api: api.patch(f"{PODS}/mine/status", {"status": {"phase": "Running"}}), 200),
        "delete": (lambda api: api.delete(f"{PODS}/mine"), 200),
        "evict": (lambda api: evict(api, "mine"), 201),
    },
)
async def test_requests_allowed_for_a_node(env: Env, work: Callable[[Api], Awaitable[Answer]], status: int) -> None:
    assert (await attacked(env, work)).status == status


STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-role}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.metadata.labels["node-role.kubernetes.io/worker"]', operator: DoesNotExist}
  next:
    patches:
    - {root: metadata, type: merge, template: 'labels: {node-role.kubernetes.io/worker: ""}'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector:
    matchExpressions:
    - {key: '.status.conditions', operator: DoesNotExist}
  next:
    statusTemplate: 'conditions: [{type: Ready, status: "True", reason: KubeletReady}]'
"""


async def plane_under_rights(env: Env, **options: Any) -> Plane:
    """A plane with the Node authorizer, RBAC and the corresponding plugins."""
    plugins = default_plugins(authorization=MODES, service_accounts=True)
    store = new_store(env)
    server = ApiServer(env, store, options=ServerOptions(admission_plugins=plugins))
    await HandlerChain(server, address="", authorization=MODES).start()
    return Plane(env, store, PlaneOptions(nodes=2, **options), server=server)


@pytest.mark.parametrize(
    "manager", [None, Options(use_service_account_credentials=True)], ids=["node alone", "manager"]
)
async def test_simulated_nodes_work_with_node_restriction(env: Env, manager: Options | None) -> None:
    """They register, lose the taint of new nodes, run pods, get the out-of-service taint, and are deleted."""
    plane = await plane_under_rights(env, manager=manager)
    work = asyncio.get_running_loop().create_task(plane.run())
    await plane.wait_ready()
    api = Api(env)
    api.transport = plane.server.transport("admin", ("system:masters",))
    if manager is None:
        await api.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    await api.create(PODS, pod("p"))
    await asyncio.sleep(5)
    result: list[Any] = [(await api.get(f"{PODS}/p")).body["status"]["phase"]]
    await api.delete(f"{PODS}/p")
    await asyncio.sleep(60)
    result.append((await api.get(f"{PODS}/p")).status)
    assert plane.nodes is not None
    plane.nodes.take_out_of_service("node-0")
    plane.nodes.vanish("node-1")
    await asyncio.sleep(5)
    spec = (await api.get("/api/v1/nodes/node-0")).body["spec"]
    result.append([taint["key"] for taint in spec["taints"] if taint["key"].endswith("out-of-service")])
    result.append((await api.get("/api/v1/nodes/node-1")).status)
    work.cancel()
    assert result == ["Running", 404, ["node.kubernetes.io/out-of-service"], 404]


async def test_stages_may_set_restricted_node_labels(env: Env, tmp_path: Any) -> None:
    (tmp_path / "stages.yaml").write_text(STAGES)
    stages = load_stages([str(tmp_path / "stages.yaml")])
    plane = await plane_under_rights(env, manager=None, stages=stages)
    work = asyncio.get_running_loop().create_task(plane.run())
    await plane.wait_ready()
    await asyncio.sleep(5)
    answer = await plane.server.transport("admin", ("system:masters",)).request(Request("GET", "/api/v1/nodes/node-0"))
    work.cancel()
    node = json.loads(answer.body)
    assert "node-role.kubernetes.io/worker" in node["metadata"]["labels"]
    assert [condition["type"] for condition in node["status"]["conditions"]] == ["Ready"]
