"""Manifests applied again: to what users of ``kubectl apply`` expect, for every sort of kind."""

import copy
from typing import Any

import msgspec
import pytest
from tests.apiserver.api import Api
from tests.custom_resources import definition, version
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.kinds import Kind
from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.names import DEFAULT
from pilothouse.cli.manifests import Manifest, apply_manifest
from pilothouse.cli.program import UserError
from pilothouse.client import Client, merge_patch, strategic_merge_patch
from pilothouse.env import Env

Doc = dict[str, Any]
OURS = "pilothouse-up"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def manifest(kind: str, body: Doc, api_version: str = "v1") -> Doc:
    """The manifest of an object named a."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "labels": {"keep": "1"}}, **body}


def container(**fields: Any) -> Doc:
    return {"name": "c", "image": "nginx", **fields}


def template(spec: Doc) -> Doc:
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


SELECTOR = {"matchLabels": {"app": "a"}}
PORTS = [{"containerPort": 53, "protocol": protocol} for protocol in ("TCP", "UDP")]
ENV = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]

POD = manifest("Pod", {"spec": {"containers": [container()], "tolerations": [{"key": "t", "operator": "Exists"}]}})
DEPLOYMENT = manifest(
    "Deployment",
    {
        "spec": {
            "selector": SELECTOR,
            "minReadySeconds": 5,
            "template": template({
                "containers": [container(env=ENV, ports=PORTS)],
                "volumes": [{"name": "v", "configMap": {"name": "x"}}],
            }),
        }
    },
    "apps/v1",
)  # fmt: skip
SERVICE = manifest(
    "Service",
    {"spec": {"type": "NodePort", "selector": {"app": "a", "tier": "b"}, "ports": [{"name": "http", "port": 80}]}},
)
JOB = manifest(
    "Job",
    {"spec": {"parallelism": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}}},
    "batch/v1",
)
CLAIM = manifest(
    "PersistentVolumeClaim",
    {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
)
SECRET = manifest("Secret", {"stringData": {"a": "1", "b": "2"}, "data": {"c": "eA=="}})
WIDGET = manifest("Widget", {"spec": {"size": 1, "colour": "red", "parts": [1, 2]}}, "example.com/v1")
ACCOUNT = manifest("ServiceAccount", {"secrets": [{"name": "mine"}], "automountServiceAccountToken": False})
CONFIG_MAP = manifest("ConfigMap", {"data": {"a": "1", "b": "2"}})
NAMESPACE = manifest("Namespace", {})

Path = tuple[str | int, ...]
IMAGE: Path = ("spec", "containers", 0, "image")
TEMPLATE: Path = ("spec", "template", "spec")


def at(document: Any, path: Path) -> Any:
    """The value at a path, None without it."""
    for step in path:
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def changed(document: Doc, path: Path, value: Any = None) -> Doc:
    """A copy with another value at the path, or without it."""
    copied = copy.deepcopy(document)
    parent = at(copied, path[:-1])
    if value is None:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return copied


async def apply(client: Client, document: Doc) -> str:
    return (await apply_manifest(client, Manifest("f", document))).verb


async def kind_of(client: Client, document: Doc) -> tuple[Kind[msgspec.Raw], str]:
    """The kind of a manifest, and the namespace of its object."""
    resource = (await client.discover()).find(document["apiVersion"], document["kind"])
    assert resource is not None
    return resource.as_kind().raw, "default" if resource.as_kind().namespaced else ""


async def read(client: Client, document: Doc) -> Doc:
    """The object of a manifest."""
    kind, namespace = await kind_of(client, document)
    raw = await client.get(kind, "a", namespace)
    decoded: Doc = msgspec.json.decode(raw)
    return decoded


async def create(client: Client, document: Doc, manager: str) -> None:
    """What another client creates."""
    kind, namespace = await kind_of(client, document)
    await client.create(kind, document, namespace, field_manager=manager)


async def patch(client: Client, document: Doc, change: Doc, manager: str = "other") -> None:
    """What another client does to the object of a manifest."""
    kind, namespace = await kind_of(client, document)
    encoded = merge_patch(change) if document["kind"] == "Widget" else strategic_merge_patch(change)
    await client.patch(kind, "a", encoded, namespace, field_manager=manager)


async def connect(env: Env) -> Client:
    """A client of a server with the admission of kube-apiserver, and what the manifests need there."""
    api = Api(env, ServerOptions(admission_plugins=DEFAULT))
    client = Client(api.transport, env, user_agent="pilothouse-load/v1")
    await apply(client, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    await apply(client, definition("Widget", version()))
    return client


META: Path = ("metadata", "labels", "keep")
OTHERS: Path = ("metadata", "annotations", "other")
OTHER = {"metadata": {"annotations": {"other": "x"}}}
"""What another client sets. For some kinds it is something of their own."""
TABLE: dict[str, tuple[Doc, Path, Any, Path, Any, Doc, Path]] = {
    # manifest, changed field and value, removed field and its value afterwards, another's change and where it stays
    "Pod": (POD, IMAGE, "nginx:2", META, None, OTHER, ("spec", "containers", 0, "volumeMounts", 0, "name")),
    "Deployment": (
        DEPLOYMENT, (*TEMPLATE, "containers", 0, "env", 0, "value"), "9", (*TEMPLATE, "containers", 0, "env", 1), None,
        {"spec": {"replicas": 4}}, ("spec", "replicas"),
    ),
    "Deployment, a volume and a default": (
        DEPLOYMENT, ("spec", "minReadySeconds"), 9, (*TEMPLATE, "volumes"), None,
        {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "proxy"}]}}}},
        (*TEMPLATE, "containers", 1, "name"),
    ),
    "Service": (
        SERVICE, ("spec", "ports", 0, "targetPort"), 8080, ("spec", "selector", "tier"), None,
        {"spec": {"externalIPs": ["192.0.2.1"]}}, ("spec", "externalIPs", 0),
    ),
    "Job": (JOB, ("spec", "parallelism"), 3, META, None, {"spec": {"suspend": True}}, ("spec", "suspend")),
    "PersistentVolumeClaim": (
        CLAIM, ("metadata", "labels", "new"), "1", META, None, {"spec": {"volumeName": "pv"}}, ("spec", "volumeName"),
    ),
    "Secret": (SECRET, ("stringData", "a"), "9", ("stringData", "b"), None, {"data": {"o": "eA=="}}, ("data", "o")),
    "custom resource": (
        WIDGET, ("spec", "size"), 2, ("spec", "colour"), None, {"spec": {"other": "x"}}, ("spec", "other"),
    ),
    "ServiceAccount": (
        ACCOUNT, ("metadata", "labels", "new"), "1", ("automountServiceAccountToken",), None,
        {"secrets": [{"name": "token"}]}, ("secrets", 1, "name"),
    ),
    "ConfigMap": (CONFIG_MAP, ("data", "a"), "9", ("data", "b"), None, {"data": {"o": "x"}}, ("data", "o")),
    "Namespace": (NAMESPACE, ("metadata", "labels", "new"), "1", META, None, OTHER, OTHERS),
}  # fmt: skip


@cases("document, path, value, removed, remaining, other, stays", TABLE)
async def test_applied_again(
    env: Env, document: Doc, path: Path, value: Any, removed: Path, remaining: Any, other: Doc, stays: Path
) -> None:
    client = await connect(env)
    assert await apply(client, document) == "created"
    assert await apply(client, document) == "unchanged"
    before = await read(client, document)
    assert await apply(client, document) == "unchanged"
    assert await read(client, document) == before, "something was written"

    await patch(client, document, other)
    with_other = await read(client, document)
    kept = at(with_other, stays)
    assert kept is not None
    assert await apply(client, document) == "unchanged"
    assert await read(client, document) == with_other

    document = changed(document, path, value)
    assert await apply(client, document) == "configured"
    live = await read(client, document)
    assert at(live, _stored(path)) == _stored_value(path, value)
    assert at(live, stays) == kept

    document = changed(document, removed)
    assert at(live, _stored(removed)) is not None
    assert await apply(client, document) == "configured"
    live = await read(client, document)
    assert at(live, _stored(removed)) == remaining
    assert at(live, _stored(path)) == _stored_value(path, value)
    assert at(live, stays) == kept
    assert await apply(client, document) == "unchanged"


def _stored(path: Path) -> Path:
    return ("data", *path[1:]) if path[0] == "stringData" else path


def _stored_value(path: Path, value: Any) -> Any:
    return {"9": "OQ=="}[value] if path[0] == "stringData" else value


def annotated(document: Doc) -> Doc:
    """A manifest as ``kubectl apply`` and ``kubectl create --save-config`` send it."""
    text = msgspec.json.encode(document).decode()
    meta = {**document["metadata"], "annotations": {LAST_APPLIED: text}}
    return {**document, "metadata": meta}


@cases(
    "manager, document, others, is_removed",
    {
        "kubectl apply": ("kubectl-client-side-apply", annotated(DEPLOYMENT), (), True),
        "kubectl create, then kubectl apply": (
            "kubectl-create",
            DEPLOYMENT,
            (("kubectl-client-side-apply", {"metadata": annotated(DEPLOYMENT)["metadata"]}),),
            True,
        ),
        "kubectl create": ("kubectl-create", DEPLOYMENT, (), False),
        "an earlier version of pilothouse": (OURS, DEPLOYMENT, (), True),
        "pilothouse, then kubectl edit": (
            OURS,
            DEPLOYMENT,
            (("kubectl-edit", {"spec": {"minReadySeconds": 7}}),),
            False,
        ),
    },
)
async def test_what_others_have_created(
    env: Env, manager: str, document: Doc, others: tuple[tuple[str, Doc], ...], is_removed: bool
) -> None:
    """As with ``kubectl apply``: only fields applied before are removed."""
    client = await connect(env)
    await create(client, document, manager)
    for other, change in others:
        await patch(client, document, change, other)
    await patch(client, document, {"spec": {"replicas": 4}}, "kubectl-scale")
    before = await read(client, document)
    same = changed(DEPLOYMENT, ("spec", "minReadySeconds"), before["spec"]["minReadySeconds"])
    assert await apply(client, same) == "unchanged"
    assert (await read(client, document))["spec"] == before["spec"]

    removed = changed(DEPLOYMENT, ("spec", "minReadySeconds"))
    assert await apply(client, removed) == ("configured" if is_removed else "unchanged")
    after = await read(client, document)
    assert ("minReadySeconds" in after["spec"]) is not is_removed
    assert after["spec"]["replicas"] == 4
    assert after["spec"]["progressDeadlineSeconds"] == 600
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    written = after["metadata"]["resourceVersion"]
    assert await apply(client, removed) == "unchanged"
    assert (await read(client, document))["metadata"]["resourceVersion"] == written


@cases(
    "document, message",
    {
        "immutable field of a Job": (
            changed(JOB, (*TEMPLATE, "containers", 0, "image"), "nginx:2"),
            r'Job a: Job\.batch "a" is invalid: spec\.template: Invalid value: .* field is immutable',
        ),
        "unknown field": (
            changed(JOB, ("spec", "replicas"), 1),
            r'Job a: strict decoding error: unknown field "spec\.replicas"$',
        ),
        "stale resourceVersion": (
            changed(JOB, ("metadata", "resourceVersion"), "1"),
            "the object has been modified",
        ),
    },
)
async def test_rejected_update(env: Env, document: Doc, message: str) -> None:
    client = await connect(env)
    await apply(client, JOB)
    before = await read(client, JOB)
    with pytest.raises(UserError, match=message):
        await apply(client, document)
    assert await read(client, JOB) == before


@cases(
    "path, value, message",
    {
        "unknown field": (("spec", "replicas"), 1, r'Job a: strict decoding error: unknown field "spec\.replicas"$'),
        "number out of range": (
            ("spec", "parallelism"),
            2**32 + 1,
            "cannot unmarshal number 4294967297 into Go struct",
        ),
        "fraction": (("spec", "parallelism"), 1.5, "cannot unmarshal number 1.5 into Go struct"),
    },
)
async def test_rejected_field(env: Env, path: Path, value: Any, message: str) -> None:
    """The errors are those of ``kubectl apply``, for a new object and for an existing one."""
    client = await connect(env)
    with pytest.raises(UserError, match=message):
        await apply(client, changed(JOB, path, value))
    await apply(client, JOB)
    with pytest.raises(UserError, match=message):
        await apply(client, changed(JOB, path, value))


async def test_repeated_variable_is_accepted_as_by_kubectl_apply(env: Env) -> None:
    client = await connect(env)
    repeated = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    document = changed(DEPLOYMENT, (*TEMPLATE, "containers", 0, "env"), repeated)
    assert [await apply(client, document) for _ in range(3)] == ["created", "unchanged", "unchanged"]


async def test_generated_name_creates_another_object_each_time(env: Env) -> None:
    client = await connect(env)
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
    objects = [await apply_manifest(client, Manifest("f", document)) for _ in range(2)]
    assert [obj.verb for obj in objects] == ["created", "created"]
    assert len({obj.name for obj in objects}) == 2


async def test_programs_share_what_they_have_applied(env: Env) -> None:
    load = await connect(env)
    up = Client(load.transport, env, user_agent="pilothouse-up/v1")
    assert await apply(up, DEPLOYMENT) == "created"
    before = await read(load, DEPLOYMENT)
    assert await apply(load, DEPLOYMENT) == "unchanged"
    assert await read(load, DEPLOYMENT) == before
    assert await apply(load, changed(DEPLOYMENT, ("spec", "minReadySeconds"))) == "configured"
    assert "minReadySeconds" not in (await read(load, DEPLOYMENT))["spec"]


class Busy:
    """A transport on which another client writes after every GET of the pod, at most ``times``."""

    def __init__(self, client: Client, times: int) -> None:
        self._client, self._left = client, times

    async def request(self, request: wire.Request) -> wire.Response:
        answer = await self._client.transport.request(request)
        if request.method == "GET" and request.target.endswith("/pods/a") and self._left:
            self._left -= 1
            await patch(self._client, POD, {"metadata": {"annotations": {"left": str(self._left)}}})
        return answer

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._client.transport.open(request)

    async def close(self) -> None:
        pass


@cases("writes, expected", {"one conflict": (1, "unchanged"), "conflicts without end": (99, "configured")})
async def test_another_client_writes_at_the_same_time(env: Env, writes: int, expected: str) -> None:
    client = await connect(env)
    await apply(client, POD)
    busy = Client(Busy(client, writes), env, user_agent=client.user_agent)
    assert await apply(busy, POD) == expected
    assert await apply(busy, changed(POD, IMAGE, "nginx:2")) == "configured"
    assert at(await read(client, POD), IMAGE) == "nginx:2"


async def test_exported_object_can_be_applied(env: Env) -> None:
    client = await connect(env)
    await apply(client, DEPLOYMENT)
    assert await apply(client, await read(client, DEPLOYMENT)) == "unchanged"
