"""The writes of users and their programs, without those of components."""

from tests.tables import cases
from tests.why.cluster import Cluster

from pilothouse.api.core import CONFIG_MAPS, NODES
from pilothouse.cli.history import write_lines
from pilothouse.why import ServerEvidence
from pilothouse.why.evidence import OTHER_SERVERS
from pilothouse.why.trust import is_component
from pilothouse.why.writes import user_writes


async def test_user_writes_of_all_namespaces_in_order(cluster: Cluster) -> None:
    await cluster.deployment(replicas=2)
    since = int((await cluster.user.list(NODES, limit=1)).metadata.resource_version)
    jane, program = cluster.as_user("jane"), cluster.as_user("system:serviceaccount:platform:settings")
    await jane.scale("web", 1)
    await program.user.create(CONFIG_MAPS, {"metadata": {"name": "edge"}, "data": {"a": "1"}}, "default")
    name = (await cluster.user.list(NODES)).items[0].metadata.name
    await jane.patch(NODES, name, {"spec": {"unschedulable": True}}, "")
    evidence = ServerEvidence(cluster.user, await cluster.user.discover())
    writes, older = await user_writes(evidence, await cluster.user.discover(), since=since)
    assert [(item.by.partition(" ")[0], item.object, item.text) for item in writes] == [
        ("jane", "deployment/web", "changed: spec.replicas: 2 -> 1"),
        ("system:serviceaccount:platform:settings", "configmap/edge", "was created"),
        ("jane", f"node/{name}", "changed: spec.unschedulable added (true)"),
    ]
    assert older == 0
    assert write_lines(writes)[0].partition("  ")[2] == (
        "default deployment/web changed: spec.replicas: 2 -> 1, by jane with pilothouse-testing"
    )
    writes, _older = await user_writes(evidence, await cluster.user.discover(), namespace="default", since=since)
    assert [item.object for item in writes] == ["deployment/web", "configmap/edge"]
    writes, _older = await user_writes(evidence, await cluster.user.discover(), namespace="default")
    assert writes[0].text == "was created"
    assert not [item for item in writes if item.object.startswith(("pod/", "replicaset/"))]


async def test_user_writes_of_secrets_have_no_values(cluster: Cluster) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "hunter2"}}
    await cluster.create(secret)
    await cluster.user.request(
        "PATCH",
        "/api/v1/namespaces/default/secrets/key",
        body=b'{"stringData": {"a": "hunter3"}}',
        headers={"content-type": "application/merge-patch+json"},
    )
    evidence = ServerEvidence(cluster.user, await cluster.user.discover())
    writes, _older = await user_writes(evidence, await cluster.user.discover(), namespace="default")
    assert [item.text for item in writes if item.object == "secret/key"] == ["was created", "changed: data.a"]


async def test_writes_of_another_api_server(cluster: Cluster) -> None:
    """A change that another server has stored has no origin."""
    store = cluster.plane.plane.server.store
    other = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"other","namespace":"default","uid":"u"}}'
    discovery = await cluster.user.discover()
    evidence = ServerEvidence(cluster.user, discovery)
    await user_writes(evidence, discovery, namespace="default")
    assert not evidence.unseen
    await store.commit(store.stage("/configmaps/default/other", lambda _revision: other, expected=0))
    evidence = ServerEvidence(cluster.user, discovery)
    writes, _older = await user_writes(evidence, discovery, namespace="default")
    assert "configmap/other" not in [write.object for write in writes]
    assert list(evidence.unseen) == [OTHER_SERVERS]
    explanation = await cluster.why("configmaps", "other")
    assert [step.text for step in explanation.steps] == ["configmap/other was created"]
    assert list(explanation.unseen) == [OTHER_SERVERS]


@cases(
    "user, expected",
    {
        "a person": ("jane", False),
        "the administrator": ("kubernetes-admin", False),
        "an operator": ("system:serviceaccount:platform:settings", False),
        "an add-on": ("system:serviceaccount:kube-system:coredns", False),
        "the manager": ("system:kube-controller-manager", True),
        "a controller": ("system:serviceaccount:kube-system:replicaset-controller", True),
        "a kubelet": ("system:node:node-1", True),
    },
)
def test_components(user: str, expected: bool) -> None:
    assert is_component(user) is expected
