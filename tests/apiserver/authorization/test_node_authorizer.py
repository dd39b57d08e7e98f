"""What a node may do: its own, what its pods need, and no more (kubernetes
``plugin/pkg/auth/authorizer/node/node_authorizer_test.go``, v1.36)."""

import asyncio
import json

import pytest
from tests.apiserver.api import Api, pod

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.authorization.bootstrap_policy import node_rules
from pilothouse.apiserver.authorization.node_authorizer import NodeAuthorizer
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.controllermanager.options import Options
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

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


def ask(verb: str, resource: str, name: str = "", group: str = "", **more: str) -> Attributes:
    resource, _, subresource = resource.partition("/")
    return Attributes(verb, group, "v1", resource, subresource, more.pop("namespace", "default"), name, **more)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        pytest.param(ask("get", "secrets", "mounted"), None, id="a mounted secret"),
        pytest.param(ask("watch", "secrets", "mounted"), None, id="watching it by name"),
        pytest.param(ask("get", "secrets", "projected"), None, id="a projected secret"),
        pytest.param(ask("get", "secrets", "pull"), None, id="to pull images"),
        pytest.param(ask("get", "secrets", "env"), None, id="in the environment"),
        pytest.param(ask("get", "configmaps", "mounted"), None, id="a mounted map"),
        pytest.param(ask("get", "configmaps", "env"), None, id="a map in the environment"),
        pytest.param(ask("get", "configmaps", "pro"), None, id="a projected map"),
        pytest.param(ask("get", "secrets", "theirs"), UNRELATED, id="another node's secret"),
        pytest.param(ask("get", "secrets", "mounted", namespace="d1"), UNRELATED, id="in another namespace"),
        pytest.param(ask("list", "secrets"), "No Object name found", id="all secrets"),
        pytest.param(ask("delete", "secrets", "mounted"), "can only read resources of this type", id="no deleting"),
        pytest.param(ask("get", "persistentvolumeclaims", "claim"), None, id="a claim"),
        pytest.param(ask("patch", "persistentvolumeclaims/status", "claim"), None, id="its status"),
        pytest.param(
            ask("list", "persistentvolumeclaims"), "can only get individual resources of this type", id="no listing"
        ),
        pytest.param(ask("get", "persistentvolumes", "pv", namespace=""), None, id="the volume behind it"),
        pytest.param(ask("get", "persistentvolumes", "other", namespace=""), UNRELATED, id="another volume"),
        pytest.param(ask("create", "serviceaccounts/token", "ours"), None, id="its pods' tokens"),
        pytest.param(ask("create", "serviceaccounts/token", "theirs"), UNRELATED, id="nobody else's"),
        pytest.param(ask("get", "nodes", "n1", namespace=""), None, id="itself"),
        pytest.param(
            ask("get", "nodes", "n2", namespace=""),
            "node 'n1' cannot read 'n2', only its own Node object",
            id="no other",
        ),
        pytest.param(
            ask("list", "nodes", namespace=""),
            "node 'n1' cannot read all nodes, only its own Node object",
            id="not all",
        ),
        pytest.param(ask("patch", "nodes/status", "n1", namespace=""), None, id="its status as node"),
        pytest.param(ask("delete", "nodes", "n1", namespace=""), "", id="not to go away"),
        pytest.param(ask("get", "pods", "ours"), None, id="its pod"),
        pytest.param(ask("get", "pods", "theirs"), UNRELATED, id="another's pod"),
        pytest.param(ask("list", "pods", field_selector="spec.nodeName=n1"), None, id="its pods"),
        pytest.param(
            ask("list", "pods", field_selector="spec.nodeName=n2"),
            "can only list/watch pods with spec.nodeName field selector",
            id="another's pods",
        ),
        pytest.param(ask("watch", "pods"), "can only list/watch pods with spec.nodeName field selector", id="all pods"),
        pytest.param(ask("patch", "pods/status", "ours"), None, id="pods' status"),
        pytest.param(ask("create", "pods/exec", "ours"), "", id="not into pods"),
        pytest.param(
            ask("update", "leases", "n1", "coordination.k8s.io", namespace="kube-node-lease"), None, id="its lease"
        ),
        pytest.param(
            ask("update", "leases", "n2", "coordination.k8s.io", namespace="kube-node-lease"),
            "can only access node lease with the same name as the requesting node",
            id="another's lease",
        ),
        pytest.param(
            ask("get", "leases", "n1", "coordination.k8s.io"),
            'can only access leases in the "kube-node-lease" system namespace',
            id="leases elsewhere",
        ),
        pytest.param(
            ask("get", "csinodes", "n2", "storage.k8s.io", namespace=""),
            "can only access CSINode with the same name as the requesting node",
            id="another's drivers",
        ),
        pytest.param(ask("list", "services", namespace=""), None, id="services, as all nodes"),
        pytest.param(ask("create", "events", namespace="d1"), None, id="events"),
        pytest.param(ask("list", "deployments", group="apps", namespace=""), "", id="no deployments"),
        pytest.param(Attributes("get", path="/metrics"), "", id="no metrics"),
    ],
)
async def test_a_node(api: Api, asked: Attributes, why: str | None) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await api.made(pods, OURS)
    theirs = {"nodeName": "n2", "serviceAccountName": "theirs"}
    await api.made(pods, pod("theirs", **theirs, volumes=[{"name": "a", "secret": {"secretName": "theirs"}}]))
    claim = {"namespace": "default", "name": "claim"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    await api.made("/api/v1/persistentvolumes", {"metadata": {"name": "pv"}, "spec": {**spec, "claimRef": claim}})
    await api.made("/api/v1/persistentvolumes", {"metadata": {"name": "other"}, "spec": spec})
    decision = NodeAuthorizer(api.server.core, node_rules).decide(NODE, asked)
    assert decision.allowed is (why is None)
    assert decision.reason == (why or "")


@pytest.mark.parametrize("identity", [Identity("system:node:n1"), Identity("jane", ("system:nodes",))])
async def test_others_are_not_its_business(api: Api, identity: Identity) -> None:
    decision = NodeAuthorizer(api.server.core, node_rules).decide(identity, ask("get", "nodes", "n1", namespace=""))
    assert (decision.allowed, decision.reason) == (False, "")


async def test_the_rejections_of_all_modes_are_told(api: Api) -> None:
    handler_chain = HandlerChain(api.server, address="", authorization="Node,RBAC")
    await handler_chain.start()
    target = "/api/v1/namespaces/default/secrets/x"
    response = await api.server.handle(Request("GET", target), NODE)
    assert isinstance(response, Response)
    status = response.status
    text = response.body.decode()
    assert status == 403
    assert f'cannot get resource \\"secrets\\" in API group \\"\\" in the namespace \\"default\\": {UNRELATED}' in text


async def test_a_cluster_with_all_programs_works_under_these_modes(env: Env) -> None:
    manager = Options(use_service_account_credentials=True)
    plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=2, manager=manager))
    handler_chain = HandlerChain(plane.server, address="", authorization="Node,RBAC")
    await handler_chain.start()
    work = asyncio.get_running_loop().create_task(plane.run())
    await plane.wait_ready()
    admin = plane.server.transport("admin", ("system:masters",))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = json.dumps({"metadata": {"name": "r"}, "spec": spec}).encode()
    path = "/apis/apps/v1/namespaces/default/replicasets"
    made = await admin.request(Request("POST", path, {"content-type": "application/json"}, body))
    assert made.status == 201
    await asyncio.sleep(60)
    ready = json.loads((await admin.request(Request("GET", f"{path}/r"))).body)["status"]["readyReplicas"]
    await admin.request(Request("DELETE", f"{path}/r"))
    await asyncio.sleep(120)
    left = json.loads((await admin.request(Request("GET", "/api/v1/namespaces/default/pods"))).body)["items"]
    work.cancel()
    assert (ready, left) == (3, [])
