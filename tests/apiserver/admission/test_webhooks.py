"""Admission webhooks: matching, order, requests and the effects of responses (texts from v1.36)."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.admission.test_mutating_policies import Worker
from tests.apiserver.api import CONFIG_MAPS, JSON_PATCH, PODS, Answer, Api, Object, pod
from tests.custom_resources import DEFINITIONS, definition, version
from tests.env.handshakes import connect_immediately, give_up_at_every_step
from tests.tables import cases

from pilothouse.apiserver.admission.built_in import UnconfiguredPlugin
from pilothouse.apiserver.admission.dynamic import webhook_calls
from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError, Target, send
from pilothouse.apiserver.admission.dynamic.webhooks import Webhooks
from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.env import Env
from pilothouse.semantics.nodes import SIMULATED_RUNTIME_VERSION
from pilothouse.serving.certificates import create_authority, issue_server

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def webhook(name: str = "a.example.com", **more: Any) -> Object:
    return {
        "name": name,
        "clientConfig": {"url": f"https://hooks.test:8443/{name}"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


def configuration(*webhooks: Object, name: str = "w") -> Object:
    return {"metadata": {"name": name}, "webhooks": list(webhooks)}


def config_map(**data: str) -> Object:
    return {"metadata": {"name": "c", "labels": {"x": "y"}}, "data": data}


class Hooks:
    """Responds in place of the network, and records the requests."""

    def __init__(self, api: Api, answer: Callable[[str, Object], Object]) -> None:
        self.requests: list[tuple[str, Object]] = []
        self.targets: list[Target] = []
        self._answer = answer
        for plugin in list(api.server.core.admission.plugins):
            if isinstance(plugin, UnconfiguredPlugin):
                plugin.load()
        for plugin in api.server.core.admission.plugins:
            if isinstance(plugin, Webhooks):
                plugin.send = self.send

    async def send(self, target: Target, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        name = target.path.partition("?")[0].lstrip("/")
        self.requests.append((name, review["request"]))
        self.targets.append(target)
        response = {"uid": review["request"]["uid"], "allowed": True, **self._answer(name, review["request"])}
        status = response.pop("http", 200)
        answer = {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}
        await asyncio.sleep(response.pop("after", 0))
        return status, json.dumps(answer).encode()


def allow(_name: str, _request: Object) -> Object:
    return {}


def patch(*operations: Object) -> Object:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


async def posted(
    api: Api,
    *webhooks: Object,
    answer: Callable[[str, Object], Object] = allow,
    kind: str = VALIDATING,
    query: str = "",
) -> tuple[Answer, Hooks]:
    hooks = Hooks(api, answer)
    await api.create(kind, configuration(*webhooks))
    return await api.post(CONFIG_MAPS + query, config_map(a="1")), hooks


@pytest.mark.parametrize("operations", [["*"], ["CREATE"], []], ids=["every", "create", "no webhook"])
async def test_mutating_webhooks_and_deletions(api: Api, operations: list[str]) -> None:
    """They are called for deletions, too, which have no object to change."""
    webhooks = [{**webhook(), "rules": [{**webhook()["rules"][0], "operations": operations}]}] if operations else []
    created, hooks = await posted(api, *webhooks, kind=MUTATING)
    assert created.status == 201
    assert (await api.delete(CONFIG_MAPS + "/c")).status == 200
    called = [request["operation"] for _name, request in hooks.requests]
    assert called == {"*": ["CREATE", "DELETE"], "CREATE": ["CREATE"]}.get("".join(operations), [])


async def test_webhook_receives_the_admission_review(api: Api) -> None:
    _answer, hooks = await posted(api, webhook())
    await api.patch(CONFIG_MAPS + "/c", {"data": {"a": "2"}})
    await api.delete(CONFIG_MAPS + "/c")
    created, updated, deleted = [request for _name, request in hooks.requests]
    uid = created.pop("uid")
    assert len(uid) == 36
    obj = created.pop("object")
    assert (obj["kind"], obj["apiVersion"], obj["data"]) == ("ConfigMap", "v1", {"a": "1"})
    assert created == {
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "c",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    assert (updated["operation"], updated["object"]["data"], updated["oldObject"]["data"]) == (
        "UPDATE",
        {"a": "2"},
        {"a": "1"},
    )
    assert (deleted["operation"], deleted["object"], deleted["oldObject"]["data"]) == ("DELETE", None, {"a": "2"})


FAILED = 'Internal error occurred: failed calling webhook "a.example.com": '
URL = "https://hooks.test:8443/a.example.com?timeout=10s"


@cases(
    "policy_spec, answer, code, message",
    {
        "allowed": (webhook(), {}, 201, ""),
        "denied": (
            webhook(),
            {"allowed": False},
            400,
            'admission webhook "a.example.com" denied the request without explanation'),
        "a denial with a status": (
            webhook(),
            {"allowed": False, "status": {"message": "no", "code": 409, "reason": "Conflict"}},
            409,
            'admission webhook "a.example.com" denied the request: no'),
        "a denial with failurePolicy Ignore": (
            webhook(failurePolicy="Ignore"),
            {"allowed": False, "status": {"reason": "Why"}},
            400,
            'admission webhook "a.example.com" denied the request: Why'),
        "an answer to another question": (
            webhook(),
            {"uid": "other"},
            500,
            FAILED + 'received invalid webhook response: expected response.uid="{uid}", got "other"'),
        "not found": (
            webhook(),
            {"http": 404},
            500,
            FAILED + "failed to call webhook: the server could not find the requested resource"),
        "a failure that is ignored": (webhook(failurePolicy="Ignore"), {"http": 500}, 201, ""),
        "timeout": (
            webhook(timeoutSeconds=2),
            {"after": 5},
            500,
            FAILED + 'failed to call webhook: Post "https://hooks.test:8443/a.example.com?timeout=2s": context '
            "deadline exceeded"),
        "a patch of a validating webhook": (
            webhook(),
            patch({"op": "add", "path": "/data/b", "value": "2"}),
            500,
            FAILED + "received invalid webhook response: validating webhook may not return response.patch"),
        "a condition that fails": (
            webhook(matchConditions=[{"name": "m", "expression": "object.data.b == '1'"}]),
            {"allowed": False},
            403,
            'configmaps "c" is forbidden: expression \'object.data.b == \'1\'\' resulted in error: no such key: b'),
        "match condition is false": (
            webhook(matchConditions=[{"name": "m", "expression": "object.data.a == '2'"}]),
            {"allowed": False},
            201,
            ""),
        "labels": (webhook(objectSelector={"matchLabels": {"x": "z"}}), {"allowed": False}, 201, ""),
        "the namespace's labels": (
            webhook(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}}),
            {"allowed": False},
            400,
            'admission webhook "a.example.com" denied the request without explanation'),
        "resources/* matches without subresource": (
            webhook(rules=[{**RULE, "resources": ["configmaps/*"]}]),
            {"allowed": False},
            400,
            'admission webhook "a.example.com" denied the request without explanation'),
        "*/status does not match without subresource": (
            webhook(rules=[{**RULE, "resources": ["*/status"]}]), {"allowed": False}, 201, ""),
    },
)  # fmt: skip
async def test_webhook_responses(api: Api, policy_spec: Object, answer: Object, code: int, message: str) -> None:
    result, hooks = await posted(api, policy_spec, answer=lambda _name, _request: dict(answer))
    if "{uid}" in message:
        message = message.replace("{uid}", hooks.requests[0][1]["uid"])
    assert (result.status, result.message) == (code, message)


async def test_warnings_reach_the_client(api: Api) -> None:
    assert (
        "look out"
        in (await posted(api, webhook(), answer=lambda _name, _request: {"warnings": ["look out"]}))[0].headers[
            "warning"
        ]
    )


async def test_dry_run_rejects_webhooks_with_side_effects(api: Api) -> None:
    good, hooks = await posted(api, webhook(), query="?dryRun=All")
    assert hooks.requests[0][1]["dryRun"] is True
    answer = await api.get(VALIDATING + "/w")
    # Stored objects may have Some; new ones may not.
    for plugin in api.server.core.admission.plugins:
        if isinstance(plugin, Webhooks):
            for item in plugin._configurations.all:
                item[0].has_side_effects = True
    assert answer.status == 200
    rejected = await api.post(CONFIG_MAPS + "?dryRun=All", config_map())
    assert good.status == 201
    assert (rejected.status, rejected.message) == (400, 'admission webhook "a.example.com" does not support dry run')


async def test_mutating_webhooks_order_and_reinvocation(api: Api) -> None:
    def answer(name: str, request: Object) -> Object:
        data = request["object"].get("data") or {}
        if name == "b.example.com" and "b" not in data:
            return patch({"op": "add", "path": "/data/b", "value": "2"}, {"op": "add", "path": "/nonsense", "value": 1})
        return {}

    again, never = webhook("a.example.com", reinvocationPolicy="IfNeeded"), webhook("b.example.com")
    result, hooks = await posted(api, again, never, answer=answer, kind=MUTATING)
    assert result.body["data"] == {"a": "1", "b": "2"}
    assert "nonsense" not in result.body
    assert [(name, "b" in request["object"]["data"]) for name, request in hooks.requests] == [
        ("a.example.com", False),
        ("b.example.com", False),
        ("a.example.com", True),
    ]


async def test_scale_of_another_version_is_not_converted(api: Api) -> None:
    scale = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
    versions = [version(name, storage=name == "v1", subresources=scale) for name in ("v1", "v2")]
    await api.create(DEFINITIONS, definition("Widget", *versions))
    widgets = "/apis/example.com/v2/namespaces/default/widgets"
    await api.create(
        widgets, {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 1}}
    )
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets/scale"]}
    to_three = patch({"op": "replace", "path": "/spec/replicas", "value": 3})
    hooks = Hooks(api, lambda _name, _request: to_three)
    await api.create(MUTATING, configuration(webhook(rules=[rule])))
    response = await api.patch(f"{widgets}/w/scale", {"spec": {"replicas": 2}})
    assert (response.status, response.body["spec"]) == (200, {"replicas": 3})
    assert [request["object"]["kind"] for _name, request in hooks.requests] == ["Scale"]


async def test_connect_options_that_a_webhook_replaces_by_a_list_are_rejected(api: Api) -> None:
    await api.create("/api/v1/namespaces/default/pods", pod("p"))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]}
    Hooks(api, lambda _name, _request: patch({"op": "replace", "path": "", "value": [1]}))
    await api.create(MUTATING, configuration(webhook(rules=[rule])))
    response = await api.post("/api/v1/namespaces/default/pods/p/exec?command=ls", {})
    assert (response.status, response.message) == (500, "Internal error occurred: the patched object is not an object")


async def test_defaulting_and_later_plugins_see_webhook_mutations(api: Api) -> None:
    rule = {**RULE, "resources": ["pods"]}
    sidecar = {"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "i"}}
    tolerations = {"op": "remove", "path": "/spec/tolerations"}
    Hooks(api, lambda _name, _request: patch(sidecar, tolerations))
    await api.create(MUTATING, configuration(webhook(rules=[rule])))
    spec = {"containers": [{"name": "c", "image": "i"}]}
    spec = (await api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})).body["spec"]
    assert [(container["name"], container["imagePullPolicy"]) for container in spec["containers"]] == [
        ("c", "Always"),
        ("side", "Always"),
    ]
    assert len(spec["tolerations"]) == 2


async def test_webhook_configurations_are_exempt_from_webhooks(api: Api) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    Hooks(api, lambda _name, _request: {"allowed": False})
    await api.create(VALIDATING, configuration(webhook(rules=[everything])))
    assert (await api.delete(VALIDATING + "/w")).status == 200


async def test_invalid_selector_rejects_the_request(api: Api) -> None:
    """Unlike a policy's, whose failures may be ignored (apiserver ``webhook/generic/webhook.go``, v0.36)."""
    Hooks(api, lambda _name, _request: {})
    selected = {"matchExpressions": [{"key": "x", "operator": "Exists"}]}
    await api.create(VALIDATING, configuration(webhook(failurePolicy="Ignore", objectSelector=selected)))
    before = await api.post(CONFIG_MAPS, config_map())
    await api.rewrite("admissionregistration.k8s.io/validatingwebhookconfigurations/w", '"Exists"', '"Is"')
    rejected = await api.delete(CONFIG_MAPS + "/c")
    assert (before.status, rejected.status) == (201, 500)
    assert rejected.message == 'Internal error occurred: "Is" is not a valid label selector operator'


async def test_webhooks_are_not_called_in_virtual_time(api: Api) -> None:
    await api.create(VALIDATING, configuration(webhook()))
    answer = await api.post(CONFIG_MAPS, config_map())
    assert answer.status == 500
    assert answer.message == (
        f'{FAILED}failed to call webhook: Post "{URL}": webhooks cannot be called: this event loop has no network'
    )


@cases(
    "service, problem",
    {
        "missing service": ({}, 'service "s" not found'),
        "missing service port": ({"ports": [{"port": 80}]}, 'no service port 443 found for service "s"'),
        "no endpoints": ({"ports": [{"port": 443}]}, 'no endpoints available for service "s"'),
    },
)
async def test_unresolvable_webhook_services(api: Api, service: Object, problem: str) -> None:

    wanted = f'failed to call webhook: Post "https://s.default.svc:443/p?timeout=10s": {problem}'
    if service:
        await api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": service})
    config = {"service": {"namespace": "default", "name": "s", "path": "/p"}}
    await api.create(VALIDATING, configuration(webhook(clientConfig=config)))
    assert (await api.post(CONFIG_MAPS, config_map())).message == FAILED + wanted


def endpoint_of_pod(name: str, address: str, node: str = "simulated", **more: Any) -> Object:
    target = {"kind": "Pod", "namespace": "default", "name": name}
    return {"addresses": [address], "nodeName": node, "targetRef": target, **more}


async def created_service(api: Api, *slices: list[Object]) -> None:
    """The Service s with these endpoints, a simulated node, and one that is not."""
    service = {"ports": [{"port": 443, "targetPort": 9443}], "selector": {"app": "operator"}}
    await api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": service})
    for name, runtime in (("simulated", SIMULATED_RUNTIME_VERSION), ("real", "containerd://2.1.0")):
        status = {"nodeInfo": {"containerRuntimeVersion": runtime}}
        await api.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    await api.create(PODS, {**pod(nodeName="simulated"), "metadata": {"name": "op-3"}})
    for index, endpoints in enumerate(slices):
        body = {
            "metadata": {"name": f"s-{index}", "labels": {"kubernetes.io/service-name": "s"}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"port": 9443}],
        }
        await api.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", body)


BY_SERVICE: Object = {"service": {"namespace": "default", "name": "s", "path": "/p"}}
POST_FAILED = 'failed to call webhook: Post "https://s.default.svc:443/p?timeout=10s": '
NO_PROCESS = (
    f'{FAILED}{POST_FAILED}pod "%s" runs on the simulated node "simulated", where no process is behind a container: '
    "a webhook that runs elsewhere needs a url in its clientConfig, or an EndpointSlice with its address"
)
OP_1, OP_2 = endpoint_of_pod("op-1", "10.128.0.1"), endpoint_of_pod("op-2", "10.128.0.2")
NOT_READY = {"conditions": {"ready": False}}


@cases(
    "slices, pod_name",
    {
        "a pod": ([[OP_1]], "op-1"),
        "the first pod of several": ([[OP_1, OP_2]], "op-1"),
        "several slices": ([[OP_1], [OP_2]], "op-1"),
        "the first ready pod": ([[OP_1 | NOT_READY, OP_2]], "op-2"),
        "other endpoints are not ready": ([[OP_1, {"addresses": ["192.0.2.1"], **NOT_READY}]], "op-1"),
        "without the name of the pod's node": (
            [[{"addresses": ["10.128.0.3"], "targetRef": {"kind": "Pod", "name": "op-3"}}]],
            "op-3",
        ),
    },
)
async def test_simulated_pods_are_not_called(api: Api, slices: list[list[Object]], pod_name: str) -> None:
    """No process listens at their addresses, which in a network may be those of others."""
    await created_service(api, *slices)
    answer, hooks = await posted(api, webhook(clientConfig=BY_SERVICE))
    assert (answer.status, answer.message, hooks.requests) == (500, NO_PROCESS % pod_name, [])
    await api.patch(
        VALIDATING + "/w", [{"op": "add", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}], JSON_PATCH
    )
    assert (await api.post(CONFIG_MAPS, config_map())).status == 201


OUTSIDE = {"addresses": ["192.0.2.1"]}


@cases(
    "slices, address",
    {
        "an address without a pod": ([[OUTSIDE]], "192.0.2.1"),
        "an address without a pod, on a simulated node": ([[OUTSIDE | {"nodeName": "simulated"}]], "192.0.2.1"),
        "another object": (
            [[OUTSIDE | {"nodeName": "simulated", "targetRef": {"kind": "VM", "name": "v"}}]],
            "192.0.2.1",
        ),
        "a pod on another node": ([[endpoint_of_pod("op-1", "192.0.2.1", "real")]], "192.0.2.1"),
        "a pod on a node that does not exist": ([[endpoint_of_pod("op-1", "192.0.2.1", "gone")]], "192.0.2.1"),
        "a pod that does not exist": ([[OUTSIDE | {"targetRef": {"kind": "Pod", "name": "gone"}}]], "192.0.2.1"),
        "beside a simulated pod": ([[OP_1, OUTSIDE, {"addresses": ["192.0.2.2"]}]], "192.0.2.1"),
        "in another slice": ([[OP_1, OP_2], [OUTSIDE]], "192.0.2.1"),
    },
)
async def test_other_endpoints_are_called(api: Api, slices: list[list[Object]], address: str) -> None:
    await created_service(api, *slices)
    answer, hooks = await posted(api, webhook(clientConfig=BY_SERVICE))
    assert (answer.status, [(target.host, target.port) for target in hooks.targets]) == (201, [(address, 9443)])


class RealHook:
    """A webhook on a socket, with a certificate for a service."""

    def __init__(self, directory: Path, names: list[str]) -> None:
        env = Env()
        authority = create_authority("webhooks", env.now())
        pair = issue_server(authority, names, env.now())
        pair.save(directory / "tls.crt", directory / "tls.key")
        self.ca_bundle = base64.b64encode(authority.certificate).decode()
        alone = pair.certificate.removesuffix(authority.certificate)
        assert alone != pair.certificate
        self.own_certificate = base64.b64encode(alone).decode()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @staticmethod
    async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        review = json.loads(await reader.readexactly(length))
        path = head.split()[1]
        if path.startswith("/moved"):
            target = "/final" if path.startswith("/moved-once") else path
            writer.write(b"HTTP/1.1 307 T\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % target.encode())
            writer.close()
            return
        denied = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": path}}
        body = json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": denied}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


@pytest.mark.real_loop(timeout=60)
async def test_webhooks_are_called_over_tls(tmp_path: Path) -> None:
    """By URL and by service; a certificate of somebody else and a closed port are failures.

    envtest (controller-runtime v0.24 pkg/envtest/webhook.go) names the webhook's own certificate (``setupCA``), and
    paths that begin with two slashes (``updateClientConfig``). Redirects are followed, as by Go's http.Client.
    """

    denied = 'admission webhook "a.example.com" denied the request: '
    failed = FAILED + "failed to call webhook: Post "
    api, hook = Api(Env()), RealHook(tmp_path, ["localhost", "s.default.svc"])
    server = await hook.start()
    outside = {"type": "ExternalName", "externalName": "localhost"}
    await api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": outside})
    messages = []
    service = {"namespace": "default", "name": "s", "path": "/by-service", "port": hook.port}
    for config in (
        {"url": f"https://localhost:{hook.port}/by-url", "caBundle": hook.ca_bundle},
        {"service": service, "caBundle": hook.ca_bundle},
        {"url": f"https://localhost:{hook.port}/by-envtest", "caBundle": hook.own_certificate},
        {"url": f"https://localhost:{hook.port}//a/%2e/b%21/", "caBundle": hook.ca_bundle},
        {"url": f"https://localhost:{hook.port}/moved-once", "caBundle": hook.ca_bundle},
        {"url": f"https://localhost:{hook.port}/moved", "caBundle": hook.ca_bundle},
        {"url": f"https://localhost:{hook.port}/by-url"},
        {"url": "https://127.0.0.1:1/x", "caBundle": hook.ca_bundle},
    ):
        await api.create(VALIDATING, configuration(webhook(clientConfig=config)))
        messages.append((await api.post(CONFIG_MAPS, config_map())).message)
        await api.delete(VALIDATING + "/w")
    server.close()
    await api.server.close()
    assert [message.replace(str(hook.port), "PORT") for message in messages] == [
        denied + "/by-url?timeout=10s",
        denied + "/by-service?timeout=10s",
        denied + "/by-envtest?timeout=10s",
        denied + "/a/b%21?timeout=10s",
        denied + "/final",
        failed + '"/moved?timeout=10s": stopped after 10 redirects',
        failed
        + '"https://localhost:PORT/by-url?timeout=10s": tls: failed to verify certificate: x509: certificate signed '
        "by unknown authority",
        failed + '"https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused',
    ]


@pytest.mark.real_loop(timeout=60)
async def test_call_can_be_cancelled_at_any_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook's time may run out while its server shakes hands."""
    hook = RealHook(tmp_path, ["localhost"])
    monkeypatch.setattr(webhook_calls, "connect", connect_immediately)

    async def call(port: int) -> None:
        await send(Target("https://localhost", "127.0.0.1", port, "localhost", "/", hook.ca_bundle), b"{}")

    outcomes, complaints = await give_up_at_every_step(hook.context, call)
    assert outcomes == {"CancelledError"}
    assert complaints == []


@pytest.mark.real_loop(timeout=60)
async def test_large_ca_bundle_is_loaded_in_chunks(tmp_path: Path) -> None:
    """The one that counts is the last, and something follows it."""
    hook = RealHook(tmp_path, ["localhost"])
    own = base64.b64decode(hook.ca_bundle).decode()
    other = create_authority("others", Env().now()).certificate.decode()
    server = await hook.start()
    messages = []
    for bundle in (other * 120 + own + "\nthe end\n", other * 120):
        target = Target(
            "https://localhost",
            "127.0.0.1",
            hook.port,
            "localhost",
            "/",
            base64.b64encode(bundle.encode()).decode(),
        )
        try:
            messages.append(str((await send(target, b'{"request":{"uid":"u"}}'))[0]))
        except CallError as error:
            messages.append(str(error))
    server.close()
    good, bad = messages
    assert good == "200"
    assert "unknown authority" in bad


@pytest.mark.real_loop(timeout=60)
async def test_buffered_webhook_responses_are_bounded(tmp_path: Path) -> None:
    """The longest incomplete response is aborted."""
    hook = RealHook(tmp_path, ["localhost"])
    sent = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n" + b" " * 7_900_000)
        await sent.wait()
        writer.close()

    server = await asyncio.start_server(endless, "127.0.0.1", 0, ssl=hook.context)
    port = server.sockets[0].getsockname()[1]
    target = Target("https://localhost", "127.0.0.1", port, "localhost", "/", hook.ca_bundle)
    calls = [asyncio.ensure_future(send(target, b"{}")) for _ in range(6)]
    exhausted = 0
    while exhausted < 3:
        await asyncio.sleep(0.01)
        exhausted = sum(call.done() for call in calls)
    errors = [str(call.exception()) for call in calls if call.done()]
    sent.set()
    await asyncio.gather(*calls, return_exceptions=True)
    server.close()
    assert set(errors) == {'Post "https://localhost": the pending responses of webhooks exceed the memory limit'}


@cases(
    "answers, requests, result",
    {
        "retried until it succeeds": ([b"429 T\r\nRetry-After: 0", b"503 U\r\nRetry-After: 0", b"200 OK"], 3, ""),
        "ten times": ([b"429 T\r\nRetry-After: 0"] * 20, 11, "too many requests"),
        "no retry without Retry-After": ([b"429 T", b"200 OK"], 1, "too many requests"),
        "no retry at a date": ([b"503 U\r\nRetry-After: Fri, 31 Dec 1999", b"200 OK"], 1, "unable to handle"),
        "no retry of a 400": ([b"400 B\r\nRetry-After: 0", b"200 OK"], 1, "unknown reason"),
    },
)
@pytest.mark.real_loop(timeout=60)
async def test_retry_after_of_a_webhook_is_respected(
    tmp_path: Path, answers: list[bytes], requests: int, result: str
) -> None:
    """client-go ``rest/with_retry.go`` (v0.36)."""
    hook = RealHook(tmp_path, ["localhost"])
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % left.pop(0))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=hook.context)
    port = server.sockets[0].getsockname()[1]
    target = Target("https://localhost", "127.0.0.1", port, "localhost", "/", hook.ca_bundle)
    with pytest.raises(CallError, match=result) if result else contextlib.nullcontext():
        assert await send(target, b"{}") == (200, b"{}")
    server.close()
    assert len(answers) - len(left) == requests


@pytest.mark.real_loop(timeout=60)
async def test_response_headers_are_bounded(tmp_path: Path) -> None:
    hook = RealHook(tmp_path, ["localhost"])

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Long: %s\r\n" % (b"x" * 1000) * 9000 + b"\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=hook.context)
    port = server.sockets[0].getsockname()[1]
    target = Target("https://localhost", "127.0.0.1", port, "localhost", "/", hook.ca_bundle)
    with pytest.raises(CallError, match="the response is too large"):
        await send(target, b"{}")
    server.close()


async def test_webhook_calls_are_counted_and_excluded_from_sli_latency(api: Api) -> None:
    core = api.server.core
    metrics = core.metrics = ServerMetrics(api.env.perf_counter, core.store, lambda: core.table)
    core.admission.metrics = metrics.admission
    answers: dict[str, Object] = {
        "slow.example.com": {"after": 3},
        "no.example.com": {"allowed": False, "status": {"code": 999}},
    }
    hooks = [webhook("slow.example.com"), webhook("no.example.com"), webhook("broken.example.com")]
    hooks[2]["failurePolicy"] = "Ignore"

    def answer(name: str, _request: Object) -> Object:
        return answers.get(name, {"http": 500})

    await posted(api, *hooks, answer=answer)
    page = metrics.response().body.decode()
    for line in (
        'webhook_request_total{name="slow.example.com",type="validating",operation="CREATE",code="200",'
        'rejected="false"} 1',
        'webhook_request_total{name="no.example.com",type="validating",operation="CREATE",code="600",'
        'rejected="true"} 1',
        'webhook_rejection_count{name="no.example.com",type="validating",operation="CREATE",error_type="no_error",'
        'rejection_code="600"} 1',
        'webhook_fail_open_count{name="broken.example.com",type="validating"} 1',
        'webhook_admission_duration_seconds_bucket{name="slow.example.com",type="validating",operation="CREATE",'
        'rejected="false",le="2.5"} 0',
        'webhook_admission_duration_seconds_bucket{name="slow.example.com",type="validating",operation="CREATE",'
        'rejected="false",le="10"} 1',
    ):
        assert f"apiserver_admission_{line}\n" in page, line


async def test_custom_object_keeps_its_kind(api: Api) -> None:
    await api.create(DEFINITIONS, definition("Foo"))
    rule = {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["foos"]}
    await api.create(MUTATING, configuration(webhook(rules=[rule])))
    operation = {"op": "replace", "path": "/kind", "value": "Bar"}
    Hooks(api, lambda _name, _request: patch(operation))
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}}
    answer = await api.post("/apis/example.com/v1/namespaces/default/foos", foo)
    assert answer.status == 422
    assert answer.message == 'Bar.example.com "f" is invalid: kind: Invalid value: "Bar": must be Foo'


async def test_large_objects_are_patched_in_the_worker(api: Api) -> None:
    Hooks(api, lambda _name, _request: patch({"op": "add", "path": "/data/a", "value": "b"}))
    await api.create(MUTATING, configuration(webhook()))
    worker = Worker()
    api.server.core.long_work.get_worker = lambda: worker
    await api.create(CONFIG_MAPS, {"metadata": {"name": "small"}, "data": {"x": ""}})
    assert worker.worked == []
    values = {f"key-{number}": "" for number in range(4_000)}
    large = await api.post(CONFIG_MAPS, {"metadata": {"name": "large"}, "data": values})
    assert large.body["data"] == {**values, "a": "b"}
    assert [name for name in worker.worked if name in ("_patched", "replace_object")] == ["_patched", "replace_object"]
