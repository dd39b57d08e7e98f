"""Validating and mutating functions with our API server, in virtual time, and single responses."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.operator.webhook_calls import DirectCalls

from pilothouse.api.core import CONFIG_MAPS, PODS, ConfigMap
from pilothouse.api.meta import LabelSelector, ObjectMeta, View
from pilothouse.client.errors import ApiError, Forbidden, Invalid
from pilothouse.env import Env
from pilothouse.operator import AdmissionRequest, App, ClientConfig, CustomResource, Denied, StatusCause
from pilothouse.operator.webhook_handler import WebhookHandler
from pilothouse.testing import AsyncCluster, async_plane

RANGE = ("example.com/v1", "Range")
AT = ClientConfig(url="https://127.0.0.1:9443")


class RangeSpec(View, frozen=True):
    low: int = 0
    high: int = 0
    mode: str = ""


class Range(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: RangeSpec = RangeSpec()


RANGES = CustomResource("example.com/v1", Range)


def a_range(name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": RANGE[0], "kind": RANGE[1], "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[AsyncCluster]:
    async with async_plane(env=env, nodes=0, controllers=()) as plane:
        yield plane


async def installed(cluster: AsyncCluster, app: App) -> DirectCalls:
    """Definitions and configurations are there, and the app answers."""
    calls = DirectCalls(cluster)
    calls.handler = app.webhook_handler(cluster.client)
    await app.install(cluster.client)
    for webhook_configuration in app.webhook_configurations(AT):
        await cluster.create(webhook_configuration)
    return calls


async def test_the_life_of_an_object_is_validated(cluster: AsyncCluster) -> None:
    app, observed = App("ranges"), []

    @app.validating(RANGES, operations=("CREATE", "UPDATE", "DELETE"))
    async def check(obj: Range, request: AdmissionRequest[Range]) -> None:
        old = request.old_object
        observed.append((request.operation, obj.spec.low, old.spec.low if old else None, request.dry_run))
        assert request.user.username == "kubernetes-admin"
        assert (request.name, request.namespace) == ("one", "default")
        assert len(request.uid) == 36
        request.warn("looked at")
        if obj.spec.low > obj.spec.high:
            raise Denied("wrong order", causes=[StatusCause("FieldValueInvalid", "exceeds high", "spec.low")])
        if request.operation == "DELETE" and obj.spec.mode == "keep":
            raise Denied("it is to be kept")

    await installed(cluster, app)
    with pytest.raises(Invalid, match=r'check\.ranges\.example\.com" denied the request: wrong order') as invalid:
        await cluster.create(a_range(low=5, high=3))
    assert invalid.value.status.details is not None
    assert [(cause.field, cause.message) for cause in invalid.value.status.details.causes] == [
        ("spec.low", "exceeds high")
    ]
    await cluster.create(a_range(low=1, high=3))
    await cluster.patch(*RANGE, "one", {"spec": {"low": 2, "mode": "keep"}})
    with pytest.raises(Forbidden, match="it is to be kept"):
        await cluster.delete(*RANGE, "one")
    await cluster.patch(*RANGE, "one", {"spec": {"mode": ""}})
    await cluster.delete(*RANGE, "one")
    assert observed == [
        ("CREATE", 5, None, False), ("CREATE", 1, None, False), ("UPDATE", 2, 1, False), ("DELETE", 2, 2, False),
        ("UPDATE", 2, 2, False), ("DELETE", 2, 2, False),
    ]  # fmt: skip


async def test_a_mutating_function_returns_a_view(cluster: AsyncCluster) -> None:
    app = App("ranges")

    @app.mutating(RANGES)
    async def fill(obj: Range, _request: AdmissionRequest[Range]) -> Range | None:
        if obj.spec.high:
            return None
        labels = {**obj.metadata.labels, "filled/by": "us"}
        metadata = ObjectMeta(name=obj.metadata.name, namespace=obj.metadata.namespace, labels=labels)
        return Range(metadata=metadata, spec=RangeSpec(low=obj.spec.low, high=obj.spec.low + 10))

    await installed(cluster, app)
    await cluster.create(a_range(low=5))
    stored = await cluster.get(*RANGE, "one")
    assert stored["spec"] == {"low": 5, "high": 15, "mode": ""}
    assert stored["metadata"]["labels"] == {"filled/by": "us"}
    await cluster.create(a_range("two", low=5, high=6))
    assert (await cluster.get(*RANGE, "two"))["spec"] == {"low": 5, "high": 6, "mode": ""}


async def test_a_mutating_function_returns_a_dict(cluster: AsyncCluster) -> None:
    app = App("maps")

    @app.mutating(CONFIG_MAPS, operations=("CREATE",))
    async def stamp(_obj: ConfigMap, request: AdmissionRequest[ConfigMap]) -> dict[str, Any]:
        body = request.as_dict()
        body.setdefault("data", {})["stamp"] = "yes"
        body["immutable"] = True
        return body

    await installed(cluster, app)
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}})
    obj = await cluster.get("v1", "ConfigMap", "a")
    assert obj["data"] == {"x": "1", "stamp": "yes"}
    assert obj["immutable"] is True


async def test_a_function_reads_with_its_client(cluster: AsyncCluster) -> None:
    app = App("ranges")

    @app.validating(RANGES, reads=(CONFIG_MAPS,))
    async def check(obj: Range, request: AdmissionRequest[Range]) -> None:
        limits = await request.client.get(CONFIG_MAPS, "limits", request.namespace)
        if obj.spec.high > int(limits.data["high"]):
            raise Denied("too high")

    await installed(cluster, app)
    await cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"high": "9"}}
    )
    await cluster.create(a_range(high=9))
    with pytest.raises(Forbidden, match="too high"):
        await cluster.create(a_range("two", high=10))
    assert app.rules() == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]


@pytest.mark.parametrize(("policy", "created"), [("Fail", False), ("Ignore", True)])
async def test_without_an_answer_the_failure_policy_decides(cluster: AsyncCluster, policy: Any, created: bool) -> None:
    app = App("ranges")

    @app.validating(RANGES, failure_policy=policy)
    async def check(_obj: Range, _request: AdmissionRequest[Range]) -> None:
        raise Denied("never asked")

    calls = await installed(cluster, app)
    calls.handler = None
    if created:
        await cluster.create(a_range())
    else:
        with pytest.raises(ApiError, match=r"failed calling webhook .* connection refused"):
            await cluster.create(a_range())
    assert len(calls.targets) == 1


def test_the_configurations() -> None:
    app = App("ranges")

    @app.validating(
        RANGES,
        failure_policy="Ignore",
        timeout_seconds=3,
        side_effects="NoneOnDryRun",
        object_selector=LabelSelector(match_labels={"a": "b"}),
        match_conditions={"high": "object.spec.high > 3"},
    )
    async def check_it(_obj: Range, _request: AdmissionRequest[Range]) -> None: ...

    @app.mutating(PODS, name="sidecar", reinvocation_policy="IfNeeded", operations=("CREATE",))
    async def inject(_obj: Any, _request: AdmissionRequest[Any]) -> None: ...

    mutating, validating = app.webhook_configurations()
    service = {"namespace": "default", "name": "ranges-webhooks", "port": 443}
    assert (mutating["kind"], validating["kind"]) == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert {item["metadata"]["name"] for item in (mutating, validating)} == {"ranges"}
    assert mutating["webhooks"] == [{
        "name": "sidecar.pods.core",
        "clientConfig": {"service": {**service, "path": "/mutate--v1-pod/sidecar"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
                   "scope": "Namespaced"}],
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"], "reinvocationPolicy": "IfNeeded",
    }]  # fmt: skip
    assert validating["webhooks"] == [{
        "name": "check-it.ranges.example.com",
        "clientConfig": {"service": {**service, "path": "/validate-example-com-v1-range/check-it"}},
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                   "resources": ["ranges"], "scope": "Namespaced"}],
        "failurePolicy": "Ignore", "matchPolicy": "Equivalent", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 3,
        "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"a": "b"}},
        "matchConditions": [{"name": "high", "expression": "object.spec.high > 3"}],
    }]  # fmt: skip


async def _check(_obj: Any, _request: Any) -> None: ...


@pytest.mark.parametrize(
    ("mutating", "arguments", "message"),
    [
        (False, {"name": "taken"}, "there is a webhook taken.ranges.example.com already"),
        (False, {"name": "Not a name"}, "the name of a webhook, 'Not a name'"),
        (False, {"timeout_seconds": 31}, "between 1 and 30, got 31"),
        (False, {"operations": ("CONNECT",)}, "operations are some of CREATE, UPDATE, DELETE, got CONNECT"),
        (True, {"operations": ("DELETE",)}, "operations are some of CREATE, UPDATE, got DELETE"),
        (True, {"operations": ()}, "got none"),
    ],
)
def test_wrong_declarations_are_rejected(mutating: bool, arguments: dict[str, Any], message: str) -> None:
    app = App("ranges")
    app.validating(RANGES, name="taken")(_check)
    app.mutating(RANGES, name="taken")(_check)
    declare = app.mutating if mutating else app.validating
    with pytest.raises(ValueError, match=message):
        declare(RANGES, **arguments)(_check)


@pytest.mark.parametrize("decorator", ["validating", "mutating"])
def test_operations_without_the_comma_of_a_tuple(decorator: str) -> None:
    with pytest.raises(TypeError, match=r"^operations= of a webhook is a tuple of operations, got 'CREATE': write ope"):
        getattr(App("ranges"), decorator)(RANGES, operations="CREATE")


def test_functions_are_coroutine_functions() -> None:
    with pytest.raises(TypeError, match="declare it async def"):
        App("ranges").validating(RANGES)(print)  # type: ignore[arg-type]


def review(operation: str = "CREATE", obj: Any = None, old: Any = None, **changed: Any) -> bytes:
    request = {
        "uid": "7",
        "kind": {"group": "example.com", "version": "v1", "kind": "Range"},
        "resource": {"group": "example.com", "version": "v1", "resource": "ranges"},
        "operation": operation,
        "name": "one",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"], "extra": {"a": ["b"]}},
        "object": obj,
        "oldObject": old,
        **changed,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def answered(app: App, body: bytes, path: str) -> tuple[int, dict[str, Any], WebhookHandler]:
    handler = app.webhook_handler(None)  # type: ignore[arg-type]  # nothing is read
    status, answer = await handler.respond(path, body)
    return status, json.loads(answer) if status == 200 else {"text": answer.decode()}, handler


VALIDATE = "/validate-example-com-v1-range/check"
MUTATE = "/mutate-example-com-v1-range/change"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Denied("no"), {"reason": "Forbidden", "code": 403, "message": "no"}),
        (Denied("no", reason="Conflict"), {"reason": "Conflict", "code": 409, "message": "no"}),
        (Denied("no", causes=[StatusCause("FieldValueInvalid", "bad", "spec")]), {
            "reason": "Invalid", "code": 422, "message": "no", "details": {
                "name": "one", "group": "example.com", "kind": "Range",
                "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec"}]}}),
        (KeyError("spec"), {
            "reason": "InternalError", "code": 500, "message": "check.ranges.example.com failed: KeyError: 'spec'"}),
        (None, {"reason": "Timeout", "code": 504, "message": "check.ranges.example.com took longer than 10 seconds"}),
    ],
)  # fmt: skip
async def test_an_error_is_a_denial(env: Env, error: Exception | None, status: dict[str, Any]) -> None:
    app = App("ranges")

    @app.validating(RANGES)
    async def check(_obj: Range, request: AdmissionRequest[Range]) -> None:
        assert request.user.extra == {"a": ("b",)}
        request.warn("careful")
        if error is None:
            await asyncio.sleep(11)
        else:
            raise error

    code, answer, _handler = await answered(app, review(obj=a_range()), VALIDATE)
    assert code == 200
    assert answer == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {
            "uid": "7", "allowed": False, "status": {"status": "Failure", **status}, "warnings": ["careful"],
        },
    }  # fmt: skip
    assert app.metrics.value("controller_runtime_webhook_requests_total", VALIDATE, str(status["code"])) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (review(obj=a_range(), kind={"group": "", "version": "v1", "kind": "Pod"}), "is about Range, example.com/v1"),
        (review("DELETE", old=a_range()), "is not about DELETE"),
        (review(), "do not fit its operation CREATE"),
        (review("UPDATE", obj=a_range()), "do not fit its operation UPDATE"),
        (review(obj=a_range(low="x")), "Range one cannot be read: Expected `int`"),
    ],
)
async def test_objects_that_cannot_be_decoded_are_denied(env: Env, body: bytes, message: str) -> None:
    app = App("ranges")
    app.validating(RANGES, name="check")(_check)
    _code, answer, _handler = await answered(app, body, VALIDATE)
    assert (answer["response"]["allowed"], answer["response"]["status"]["code"]) == (False, 400)
    assert re.search(message, answer["response"]["status"]["message"])


@pytest.mark.parametrize(
    ("body", "path", "code", "message"),
    [
        (b"{", VALIDATE, 400, "the body is no AdmissionReview"),
        (b"[" * 1000, VALIDATE, 400, "exceeded max depth"),
        (review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"), VALIDATE, 400, "expected an Admission"),
        (review(), "/convert", 404, "not found"),
        (review(), "/", 404, "not found"),
    ],
)
async def test_invalid_reviews_are_rejected(env: Env, body: bytes, path: str, code: int, message: str) -> None:
    app = App("ranges")
    app.validating(RANGES, name="check")(_check)
    status, answer, _handler = await answered(app, body, path)
    assert status == code
    assert message in answer["text"]


@pytest.mark.parametrize(
    ("mutating", "result", "message"),
    [
        (False, False, "a validating function returns None or raises Denied, got False"),
        (True, "text", "a mutating function returns a Range, a dict or None, got 'text'"),
    ],
)
async def test_other_results_are_errors(env: Env, mutating: bool, result: Any, message: str) -> None:
    app = App("ranges")

    async def function(_obj: Any, _request: Any) -> Any:
        return result

    (app.mutating if mutating else app.validating)(RANGES, name="change" if mutating else "check")(function)
    _code, answer, _handler = await answered(app, review(obj=a_range()), MUTATE if mutating else VALIDATE)
    assert message in answer["response"]["status"]["message"]


async def test_a_change_is_answered_as_a_json_patch(env: Env) -> None:
    app = App("ranges")

    @app.mutating(RANGES)
    async def change(obj: Range, _request: AdmissionRequest[Range]) -> Range:
        return Range(metadata=obj.metadata, spec=RangeSpec(low=1, high=obj.spec.high))

    _code, answer, _handler = await answered(app, review(obj=a_range(high=3)), MUTATE)
    response = answer["response"]
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/spec/low", "value": 1}]
    _code, answer, _handler = await answered(app, review(obj=a_range(low=1)), MUTATE)
    assert answer["response"] == {"uid": "7", "allowed": True}


async def test_a_number_that_cannot_be_read_is_the_clients_mistake(cluster: AsyncCluster) -> None:
    app = App("ranges")

    @app.mutating(RANGES)
    async def fill(obj: Range, _request: AdmissionRequest[Range]) -> Range:
        return msgspec.structs.replace(obj, spec=RangeSpec(low=1))

    handler = app.webhook_handler(cluster.client)
    kind = {"group": "example.com", "version": "v1", "kind": "Range"}
    whole = {**a_range(), "unknown": "NUMBER"}
    request = {"uid": "1", "operation": "CREATE", "kind": kind, "name": "one", "object": whole}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = msgspec.json.encode(review).replace(b'"NUMBER"', b"9" * 5000)
    status, answer = await handler.respond("/mutate-example-com-v1-range/fill", body)
    denied = msgspec.json.decode(answer)["response"]["status"]
    assert (status, denied["code"], denied["reason"]) == (200, 400, "BadRequest")
    assert "out of range" in denied["message"]
