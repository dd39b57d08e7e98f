"""The Node authorizer (kubernetes ``plugin/pkg/auth/authorizer/node/node_authorizer_test.go``, v1.36)."""

import asyncio
import json

import pytest
from tests.apiserver.api import Api, pod
from tests.stores import new_store
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.authorization.bootstrap_policy import node_rules
from pilothouse.apiserver.authorization.node_authorizer import NodeAuthorizer
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.controllermanager.options import Options
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions

NODE = Identity("system:node:n1", ("system:nodes", "system:authenticated"))
UNRELATED = "no relationship found between node 'n1' and this object"
OURS = pod(
    "ours",
    nodeName="n1",
    serviceAccountName="ours",
    imagePullSecrets=[{"name": "pull"}],
    volumes=[
        {"name": "a", "secret": {"secretName": "mounted"}},
        {"name": "b", "configMap": {"name": "mounted"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "d", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "pro"}}]}},
    ],
    containers=[
        {
            "name": "c",
            "image": "i",
            "envFrom": [{"configMapRef": {"name": "env"}}],
            "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
        }
    ],
)


def attributes(verb: str, resource: str, name: str = "", group: str = "", **more: str) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(verb, group, "v1", resource, subresource, more.pop("namespace", "default"), name, **more)


@cases(
    "request_attributes, reason",
    {
        "a mounted secret": (attributes("get", "secrets", "mounted"), None),
        "watching it by name": (attributes("watch", "secrets", "mounted"), None),
        "a projected secret": (attributes("get", "secrets", "projected"), None),
        "imagePullSecrets": (attributes("get", "secrets", "pull"), None),
        "secret in env": (attributes("get", "secrets", "env"), None),
        "a mounted map": (attributes("get", "configmaps", "mounted"), None),
        "a map in the environment": (attributes("get", "configmaps", "env"), None),
        "a projected map": (attributes("get", "configmaps", "pro"), None),
        "another node's secret": (attributes("get", "secrets", "theirs"), UNRELATED),
        "secret in another namespace": (attributes("get", "secrets", "mounted", namespace="d1"), UNRELATED),
        "list of secrets": (attributes("list", "secrets"), "No Object name found"),
        "delete a secret": (attributes("delete", "secrets", "mounted"), "can only read resources of this type"),
        "a claim": (attributes("get", "persistentvolumeclaims", "claim"), None),
        "status of a claim": (attributes("patch", "persistentvolumeclaims/status", "claim"), None),
        "list of claims": (
            attributes("list", "persistentvolumeclaims"),
            "can only get individual resources of this type",
        ),
        "the volume behind it": (attributes("get", "persistentvolumes", "pv", namespace=""), None),
        "unrelated volume": (attributes("get", "persistentvolumes", "other", namespace=""), UNRELATED),
        "token for a pod of the node": (attributes("create", "serviceaccounts/token", "ours"), None),
        "token for a pod of another node": (attributes("create", "serviceaccounts/token", "theirs"), UNRELATED),
        "own Node": (attributes("get", "nodes", "n1", namespace=""), None),
        "another Node": (
            attributes("get", "nodes", "n2", namespace=""),
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        "list of Nodes": (
            attributes("list", "nodes", namespace=""),
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
        "status of the own Node": (attributes("patch", "nodes/status", "n1", namespace=""), None),
        "delete the own Node": (attributes("delete", "nodes", "n1", namespace=""), ""),
        "own pod": (attributes("get", "pods", "ours"), None),
        "pod of another node": (attributes("get", "pods", "theirs"), UNRELATED),
        "list of own pods": (attributes("list", "pods", field_selector="spec.nodeName=n1"), None),
        "list of pods of another node": (
            attributes("list", "pods", field_selector="spec.nodeName=n2"),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        "watch of all pods": (
            attributes("watch", "pods"),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        "pods' status": (attributes("patch", "pods/status", "ours"), None),
        "exec into a pod": (attributes("create", "pods/exec", "ours"), ""),
        "own Lease": (attributes("update", "leases", "n1", "coordination.k8s.io", namespace="kube-node-lease"), None),
        "Lease of another node": (
            attributes("update", "leases", "n2", "coordination.k8s.io", namespace="kube-node-lease"),
            "can only access node lease with the same name as the requesting node",
        ),
        "Lease in another namespace": (
            attributes("get", "leases", "n1", "coordination.k8s.io"),
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        "CSINode of another node": (
            attributes("get", "csinodes", "n2", "storage.k8s.io", namespace=""),
            "can only access CSINode with the same name as the requesting node",
        ),
        "services, as all nodes": (attributes("list", "services", namespace=""), None),
        "events": (attributes("create", "events", namespace="d1"), None),
        "list of deployments": (attributes("list", "deployments", group="apps", namespace=""), ""),
        "path of metrics": (Attributes("get", path="/metrics"), ""),
    },
)
async def test_node_authorizer_decisions(api: Api, request_attributes: Attributes, reason: str | None) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await api.create(pods, OURS)
    other_node = {"nodeName": "n2", "serviceAccountName": "theirs"}
    await api.create(pods, pod("theirs", **other_node, volumes=[{"name": "a", "secret": {"secretName": "theirs"}}]))
    claim = {"namespace": "default", "name": "claim"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    await api.create("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": {**spec, "claimRef": claim}})
    await api.create("/api/v1/persistentvolumes", {"metadata": {"name": "other"}, "spec": spec})
    decision = NodeAuthorizer(api.server.core, node_rules).authorize(NODE, request_attributes)
    assert decision.allowed is (reason is None)
    assert decision.reason == (reason or "")


@pytest.mark.parametrize("identity", [Identity("system:node:n1"), Identity("jane", ("system:nodes",))])
async def test_other_users_have_no_opinion(api: Api, identity: Identity) -> None:
    decision = NodeAuthorizer(api.server.core, node_rules).authorize(
        identity, attributes("get", "nodes", "n1", namespace="")
    )
    assert (decision.allowed, decision.reason) == (False, "")


async def test_reasons_of_all_modes_are_reported(api: Api) -> None:
    handler_chain = HandlerChain(api.server, address="", authorization="Node,RBAC")
    await handler_chain.start()
    target = "/api/v1/namespaces/default/secrets/x"
    response = await api.server.handle(Request("GET", target), NODE)
    assert isinstance(response, Response)
    status = response.status
    text = response.body.decode()
    assert status == 403
    assert f'cannot get resource \\"secrets\\" in API group \\"\\" in the namespace \\"default\\": {UNRELATED}' in text


async def test_whole_cluster_runs_with_node_and_rbac(env: Env) -> None:
    manager = Options(use_service_account_credentials=True)
    plane = Plane(env, new_store(env), PlaneOptions(nodes=2, manager=manager))
    handler_chain = HandlerChain(plane.server, address="", authorization="Node,RBAC")
    await handler_chain.start()
    work = asyncio.get_running_loop().create_task(plane.run())
    await plane.wait_ready()
    admin = plane.server.transport("admin", ("system:masters",))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = json.dumps({"metadata": {"name": "r"}, "spec": spec}).encode()
    path = "/apis/apps/v1/namespaces/default/replicasets"
    created = await admin.request(Request("POST", path, {"content-type": "application/json"}, body))
    assert created.status == 201
    await asyncio.sleep(60)
    ready = json.loads((await admin.request(Request("GET", f"{path}/r"))).body)["status"]["readyReplicas"]
    await admin.request(Request("DELETE", f"{path}/r"))
    await asyncio.sleep(120)
    remaining = json.loads((await admin.request(Request("GET", "/api/v1/namespaces/default/pods"))).body)["items"]
    work.cancel()
    assert (ready, remaining) == (3, [])
