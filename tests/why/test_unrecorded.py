"""Objects whose creation is not recorded: by an API server without a history of authors, or before its history."""

from typing import Any

from tests.tables import cases
from tests.why.cluster import NAMESPACE, Cluster, text

from pilothouse.api import wire
from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import Client
from pilothouse.client.history import PATH
from pilothouse.client.interceptor import Interceptor, Rule, fail
from pilothouse.env import Env
from pilothouse.why import Reference, ServerEvidence, explain
from pilothouse.why.states.lifetime import creating_manager

CREATED = "2026-01-01T00:00:10Z"


def entry(manager: str, *fields: str, time: str = CREATED, **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": {key: {} for key in fields}, **more}


@cases(
    "entries, manager",
    {
        "the manager that wrote when it was created": ([entry("kubectl-create", "f:data")], "kubectl-create"),
        "a second later": ([entry("kubectl-create", "f:data", time="2026-01-01T00:00:11Z")], "kubectl-create"),
        "written since by its only manager": ([entry("kubectl-edit", "f:data", time="2026-01-01T00:09:00Z")], ""),
        "a controller that adds a status": (
            [entry("kube-controller-manager", "f:metadata", "f:status"), entry("kubectl", "f:metadata", "f:spec")],
            "kubectl",
        ),
        "a status by its subresource": (
            [entry("kubelet", "f:status", subresource="status"), entry("kubectl-run", "f:metadata", "f:spec")],
            "kubectl-run",
        ),
        "metadata alone": ([entry("kubectl-create", "f:metadata")], "kubectl-create"),
        "two that may have": ([entry("a", "f:data"), entry("b", "f:data")], ""),
        "without a time": ([{"manager": "a", "fieldsV1": {"f:data": {}}}], ""),
        "none": ([], ""),
    },
)
def test_manager_that_created_an_object(entries: list[dict[str, Any]], manager: str) -> None:
    assert creating_manager({"creationTimestamp": CREATED, "managedFields": entries}) == manager


async def test_creation_on_a_server_that_records_no_authors(cluster: Cluster) -> None:
    def is_history(_call: object, request: wire.Request) -> bool:
        return request.target.startswith(PATH)

    env: Env = cluster.plane.plane.env
    other = Interceptor(cluster.user.transport, env)
    other.add(Rule(fail(404, "NotFound", "the server could not find the requested resource"), when=is_history))
    user = Client(other, env)
    await cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    )

    async def explained(client: Client) -> str:
        evidence = ServerEvidence(client, await client.discover())
        return text(await explain(evidence, Reference("configmaps", NAMESPACE, "settings"), time=env.now()))

    at = f"{env.now():%H:%M:%S}"
    assert f"{at}  configmap/settings was created, by pilothouse-testing\n" in await explained(user)

    reset: dict[str, Any] = {"metadata": {"managedFields": [{}]}}
    await cluster.patch(CONFIG_MAPS, "settings", reset)
    explanation = await explained(user)
    assert [line.strip() for line in explanation.splitlines()[1:3]] == [
        f"└─ {at}  configmap/settings was created",
        "who created it is not recorded",
    ], explanation

    store = cluster.plane.plane.server.store
    store.compact(store.revision)
    assert "configmap/settings is older than the history" in await explained(cluster.user)
