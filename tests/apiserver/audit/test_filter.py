"""Audit events of HTTP and in-process requests, stage by stage."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.apiserver.application import ADMIN, JANE, JSON, MAPS, Exchange
from tests.stores import new_store

from pilothouse.api.wire import Request
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.asgi import Application
from pilothouse.apiserver.audit import context as context_module
from pilothouse.apiserver.audit.checker import PolicyRuleEvaluator
from pilothouse.apiserver.audit.context import add_audit_annotation, audit_context
from pilothouse.apiserver.audit.event import Event, event_json
from pilothouse.apiserver.audit.filter import Audit, source_ips
from pilothouse.apiserver.audit.metrics import AuditMetrics
from pilothouse.apiserver.audit.policy import Policy, PolicyRule
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.server import ApiServer
from pilothouse.env import Env

ONE = {"metadata": {"name": "one"}, "data": {"a": "b"}}


class Recorder:
    """A backend that keeps events, and rejects them while ``works`` is off."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.works = True

    async def process_event(self, event: Event) -> bool:
        self.events.append(event)
        return self.works

    async def close(self) -> None:
        """Nothing is open."""


class AuditedServer:
    """A server that records by these rules."""

    def __init__(self, env: Env, *rules: PolicyRule, authorization: str = "RBAC") -> None:
        self.recorder, self.metrics = Recorder(), AuditMetrics()
        policy = Policy(rules or (PolicyRule("RequestResponse"),))
        audit = Audit(env, PolicyRuleEvaluator(policy), self.recorder, self.metrics)
        self.server = ApiServer(env, new_store(env), audit=audit)
        token_authenticators = StaticTokenAuthenticator(
            {"admin": Identity("admin", ("system:masters",), "u-1", {"scopes": ("a",)}), "jane": Identity("jane")}
        )
        self.chain = HandlerChain(
            self.server,
            address="127.0.0.1:6443",
            token_authenticators=[token_authenticators],
            authorization=authorization,
        )
        self.application = Application(env, self.chain)

    async def request(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] = ADMIN,
    ) -> Exchange:
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        exchange = Exchange(self.application, method, target, {**JSON, **headers}, sent)
        exchange.scope["client"] = ("127.0.0.1", 4711)
        await exchange.run()
        return exchange

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events recorded since the last call."""
        document = [json.loads(event_json(event)) for event in self.recorder.events]
        self.recorder.events.clear()
        return document

    def metric(self, name: str) -> str:
        lines = self.metrics.registry.exposition().splitlines()
        return next(line for line in lines if line.startswith(name)).removeprefix(name)


async def _started(env: Env, *rules: PolicyRule) -> AuditedServer:
    served = AuditedServer(env, *rules)
    await served.chain.start()
    return served


async def test_write_has_request_received_and_response_complete_stages(env: Env) -> None:
    served = await _started(env)
    headers = {**ADMIN, "user-agent": "test/1", "x-forwarded-for": "10.0.0.1", "audit-id": "mine"}
    exchange = await served.request("POST", MAPS, ONE, headers)
    assert exchange.headers["audit-id"] == "mine"
    received, complete = served.events
    head = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": "mine",
        "requestURI": MAPS,
        "verb": "create",
        "user": {
            "username": "admin",
            "uid": "u-1",
            "groups": ["system:masters", "system:authenticated"],
            "extra": {"scopes": ["a"]},
        },
        "sourceIPs": ["10.0.0.1", "127.0.0.1"],
        "userAgent": "test/1",
    }
    stamps = {
        "requestReceivedTimestamp": received["requestReceivedTimestamp"],
        "stageTimestamp": received["stageTimestamp"],
    }
    ref = {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"}
    assert received == {**head, "stage": "RequestReceived", "objectRef": ref, **stamps}
    assert complete.pop("responseObject")["metadata"]["name"] == "one"
    assert complete == {
        **head,
        "stage": "ResponseComplete",
        "objectRef": {**ref, "name": "one"},
        "responseStatus": {"metadata": {}, "code": 201},
        "requestObject": {"kind": "ConfigMap", "apiVersion": "v1", **ONE},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        **stamps,
        "stageTimestamp": complete["stageTimestamp"],
    }
    assert served.metric("apiserver_audit_event_total ") == "2"
    assert served.metric('apiserver_audit_level_total{level="RequestResponse"} ') == "1"


@pytest.mark.parametrize(
    ("level", "objects"),
    [
        ("None", None),
        ("Metadata", set()),
        ("Request", {"requestObject"}),
        ("RequestResponse", {"requestObject", "responseObject"}),
    ],
)
async def test_level_determines_recorded_objects(env: Env, level: str, objects: set[str] | None) -> None:
    served = await _started(env, PolicyRule(level, omit_stages=("RequestReceived",)))
    exchange = await served.request("POST", MAPS, ONE)
    assert exchange.status == 201
    assert exchange.headers["audit-id"]
    events = served.events
    if objects is None:
        assert events == []
        assert served.metric("apiserver_audit_event_total ") == "0"
        assert served.metric('apiserver_audit_level_total{level="None"} ') == "1"
        return
    (event,) = events
    assert event["auditID"] == exchange.headers["audit-id"]
    assert {"requestObject", "responseObject"} & set(event) == objects
    assert event["objectRef"]["name"] == "one"


async def test_failures_are_recorded_with_their_status(env: Env) -> None:
    served = await _started(env, PolicyRule("RequestResponse", omit_stages=("RequestReceived",)))
    await served.request("GET", f"{MAPS}/none")
    (event,) = served.events
    message = 'configmaps "none" not found'
    status = {"status": "Failure", "message": message, "reason": "NotFound", "code": 404}
    status["details"] = {"name": "none", "kind": "configmaps"}
    assert event["responseStatus"] == {"metadata": {}, **status}
    assert event["responseObject"] == {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}


async def test_rejections_by_the_authorizer_are_annotated(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata", omit_stages=("RequestReceived",)))
    await served.request("GET", MAPS, headers=JANE)
    (event,) = served.events
    assert event["annotations"] == {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""}
    assert event["responseStatus"]["code"] == 403
    await served.request("GET", "/version", headers=JANE)
    (event,) = served.events
    assert event["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert event["annotations"]["authorization.k8s.io/reason"].startswith("RBAC: allowed by ClusterRoleBinding")


async def test_always_allow_is_annotated_too(env: Env) -> None:
    served = AuditedServer(env, PolicyRule("Metadata", omit_stages=("RequestReceived",)), authorization="AlwaysAllow")
    await served.request("GET", MAPS)
    (event,) = served.events
    assert event["annotations"] == {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}


async def test_unauthenticated_request_has_one_stage_and_no_user(env: Env) -> None:
    served = await _started(env, PolicyRule("RequestResponse", users=("admin",)), PolicyRule("Metadata"))
    exchange = await served.request("GET", MAPS, headers={"authorization": "Bearer wrong"})
    assert exchange.status == 401
    (event,) = served.events
    assert (event["stage"], event["level"], event["user"]) == ("ResponseStarted", "Metadata", {})
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


async def test_an_invalid_timeout_is_rejected_before_authentication(env: Env) -> None:
    served = await _started(env)
    await served.request("GET", f"{MAPS}?timeout=never")
    (event,) = served.events
    assert (event["stage"], event["user"], event["responseStatus"]["code"]) == ("ResponseStarted", {}, 400)


async def test_impersonation_records_both_users(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata", users=("admin",), omit_stages=("RequestReceived",)))
    acts_as = {"impersonate-user": "joe", "impersonate-group": "g", "impersonate-extra-example.com%2fscopes": "x"}
    await served.request("GET", MAPS, headers={**ADMIN, **acts_as})
    (event,) = served.events
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"] == {
        "username": "joe",
        "groups": ["g", "system:authenticated"],
        "extra": {"example.com/scopes": ["x"]},
    }
    assert event["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert event["responseStatus"]["code"] == 403


async def test_history_has_both_users_of_an_impersonation(env: Env) -> None:
    served = AuditedServer(env, PolicyRule("None"), authorization="AlwaysAllow")
    await served.chain.start()
    acts_as = {"impersonate-user": "joe", "impersonate-group": "g"}
    await served.request("POST", MAPS, ONE, {**ADMIN, **acts_as})
    await served.request("DELETE", f"{MAPS}/one")
    origins = [change.origin for change in served.server.store.changes("/configmaps/")]
    assert [(origin.shown_user, origin.user, origin.impersonator) for origin in origins if origin is not None] == [
        ("joe (impersonated by admin)", "joe", "admin"),
        ("admin", "admin", ""),
    ]


async def test_forbidden_impersonation_records_one_user(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata", users=("jane",), omit_stages=("RequestReceived",)))
    await served.request("GET", MAPS, headers={**JANE, "impersonate-user": "joe"})
    (event,) = served.events
    assert "impersonatedUser" not in event
    assert event["responseStatus"]["reason"] == "Forbidden"
    assert "annotations" not in event


async def test_watch_has_response_started_and_response_complete_stages(env: Env) -> None:
    served = await _started(env)
    exchange = await served.request("GET", f"{MAPS}?watch=1&timeoutSeconds=5")
    assert exchange.status == 200
    received, started, complete = served.events
    assert [event["stage"] for event in (received, started, complete)] == [
        "RequestReceived",
        "ResponseStarted",
        "ResponseComplete",
    ]
    assert "responseStatus" not in received
    assert started["responseStatus"] == complete["responseStatus"] == {"metadata": {}, "code": 200}
    assert started["stageTimestamp"] < complete["stageTimestamp"]
    assert "responseObject" not in complete


async def test_disconnected_watch_has_response_complete(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata", omit_stages=("RequestReceived",)))
    exchange = Exchange(served.application, "GET", f"{MAPS}?watch=1", {**JSON, **ADMIN}, b"")
    task = asyncio.create_task(exchange.run())
    await asyncio.sleep(1)
    assert [event["stage"] for event in served.events] == ["ResponseStarted"]
    exchange.disconnect()
    await task
    assert [event["stage"] for event in served.events] == ["ResponseComplete"]


async def test_failed_long_running_request_has_both_stages(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata"))
    await served.request("GET", f"{MAPS}?watch=1", headers=JANE)
    assert [event["stage"] for event in served.events] == ["RequestReceived", "ResponseStarted", "ResponseComplete"]


async def test_in_process_requests_are_recorded(env: Env) -> None:
    served = await _started(env, PolicyRule("Request"))
    transport = served.server.transport("system:kube-scheduler", ("system:masters",), user_agent="scheduler/1")
    body = json.dumps(ONE).encode()
    await transport.request(Request("POST", MAPS, JSON, body))
    received, complete = served.events
    assert received["user"] == {"username": "system:kube-scheduler", "groups": ["system:masters"]}
    assert received["userAgent"] == "scheduler/1"
    assert "sourceIPs" not in received
    assert received["auditID"] == complete["auditID"] != ""
    assert complete["requestObject"]["data"] == {"a": "b"}
    stream = await transport.open(Request("GET", f"{MAPS}?watch=1"))
    await anext(aiter(stream))
    assert [event["stage"] for event in served.events] == ["RequestReceived", "ResponseStarted"]
    await stream.close()
    await stream.close()
    assert [event["stage"] for event in served.events] == ["ResponseComplete"]


class Broken(Plugin):
    """A plugin with a bug."""

    def admit(self, write: AdmissionAttributes) -> None:
        raise LookupError("a bug")


class Slow(Plugin):
    """A plugin that takes longer than a request may."""

    async def _wait(self) -> None:
        await asyncio.sleep(3600)

    def admit(self, write: AdmissionAttributes) -> Any:
        return self._wait()


async def test_handler_exception_has_the_panic_stage(env: Env) -> None:
    served = await _started(env)
    served.server.core.admission.plugins.append(Broken())
    exchange = await served.request("POST", MAPS, ONE)
    assert exchange.status == 500
    _received, panicked = served.events
    assert panicked["stage"] == "Panic"
    assert panicked["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "APIServer panic'd: a bug",
        "reason": "InternalError",
        "code": 500,
    }
    assert "responseObject" not in panicked


async def test_timed_out_request_is_recorded(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata", omit_stages=("RequestReceived",)))
    served.server.core.admission.plugins.append(Slow())
    exchange = await served.request("POST", f"{MAPS}?timeout=2s", ONE)
    assert exchange.status == 504
    (event,) = served.events
    assert event["stage"] == "ResponseComplete"
    assert (event["responseStatus"]["reason"], event["responseStatus"]["code"]) == ("Timeout", 504)


async def test_blocking_strict_rejects_unrecordable_requests(env: Env) -> None:
    served = await _started(env)
    served.recorder.works = False
    exchange = Exchange(served.application, "POST", MAPS, {**JSON, **ADMIN}, json.dumps(ONE).encode())
    body = await exchange.run()
    assert exchange.status == 500
    assert body == f'Internal Server Error: "{MAPS}": failed to store audit event\n'.encode()
    assert [event["stage"] for event in served.events] == ["RequestReceived"]
    assert served.metric("apiserver_audit_requests_rejected_total ") == "1"
    served.recorder.works = True
    assert (await served.request("GET", f"{MAPS}/one")).status == 404


PATCHES: dict[str, tuple[Any, Any]] = {
    "application/merge-patch+json": (b'{\n "data": {"c": "d"}\n}', {"data": {"c": "d"}}),
    "application/json-patch+json": ([{"op": "add", "path": "/data/e", "value": "f"}],) * 2,
    "application/strategic-merge-patch+json": ({"data": {"g": "h"}},) * 2,
    "application/apply-patch+yaml": (
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}},
    ),
}


@pytest.mark.parametrize("content_type", PATCHES)
async def test_patches_are_recorded_as_they_were_sent(env: Env, content_type: str) -> None:
    served = await _started(env, PolicyRule("Request", verbs=("patch",), omit_stages=("RequestReceived",)))
    await served.request("POST", MAPS, ONE)
    body, recorded = PATCHES[content_type]
    target = f"{MAPS}/one?fieldManager=me"
    exchange = await served.request("PATCH", target, body, {**ADMIN, "content-type": content_type})
    assert exchange.status == 200
    (event,) = served.events
    assert event["requestObject"] == recorded


async def test_invalid_utf8_is_replaced_in_events(env: Env) -> None:
    served = await _started(env, PolicyRule("Request", omit_stages=("RequestReceived",)))
    headers = {**ADMIN, "content-type": "application/merge-patch+json"}
    await served.request("PATCH", f"{MAPS}/one", b'{"data": {"a": "\xff"}}', headers)
    assert served.events[-1]["requestObject"] == {"data": {"a": "\ufffd"}}


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b'"\xff'])
async def test_undecodable_patch_is_not_recorded(env: Env, body: bytes) -> None:
    served = await _started(env, PolicyRule("Request", omit_stages=("RequestReceived",)))
    await served.request("POST", MAPS, ONE)
    headers = {**ADMIN, "content-type": "application/merge-patch+json"}
    assert (await served.request("PATCH", f"{MAPS}/one", body, headers)).status in (400, 422)
    assert "requestObject" not in served.events[-1]


async def test_bodies_of_deletions_are_recorded_even_if_invalid(env: Env) -> None:
    served = await _started(env, PolicyRule("Request", omit_stages=("RequestReceived",)))
    await served.request("DELETE", f"{MAPS}/one", {"propagationPolicy": "Sometimes", "unknown": 1})
    await served.request(
        "DELETE", MAPS, {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0}
    )
    await served.request("DELETE", MAPS)
    one, collection, bare = served.events
    version = "meta.k8s.io/__internal"  # whatever the body has, as recorded from v1.36.2
    assert one["requestObject"] == {"kind": "DeleteOptions", "apiVersion": version, "propagationPolicy": "Sometimes"}
    assert collection["verb"] == "deletecollection"
    assert collection["requestObject"] == {
        "kind": "DeleteOptions",
        "apiVersion": version,
        "gracePeriodSeconds": 0,
    }
    assert "requestObject" not in bare


async def test_updates_record_uid_resource_version_and_sent_managed_fields(env: Env) -> None:
    served = await _started(env, PolicyRule("Request", verbs=("update",), omit_stages=("RequestReceived",)))
    exchange = Exchange(served.application, "POST", MAPS, {**JSON, **ADMIN}, json.dumps(ONE).encode())
    stored = json.loads(await exchange.run())
    await served.request("PUT", f"{MAPS}/one", {**stored, "data": {"x": "y"}})
    (event,) = served.events
    assert event["objectRef"]["uid"] == stored["metadata"]["uid"]
    assert event["objectRef"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert event["requestObject"]["metadata"]["managedFields"] == stored["metadata"]["managedFields"]


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"])
async def test_omit_managed_fields(env: Env, accept: str) -> None:
    rule = PolicyRule("RequestResponse", omit_managed_fields=True, omit_stages=("RequestReceived",))
    served = await _started(env, rule)
    await served.request("POST", MAPS, ONE)
    target = f"{MAPS}?includeObject=Object" if "Table" in accept else f"{MAPS}/one"
    exchange = Exchange(served.application, "GET", target, {**ADMIN, "accept": accept}, b"")
    assert b"managedFields" in await exchange.run()
    create, read = served.events
    assert "managedFields" not in json.dumps([create, read])
    assert '"name": "one"' in json.dumps(read["responseObject"])
    update = json.loads(json.dumps({**ONE, "metadata": {"name": "one", "managedFields": [{"manager": "m"}]}}))
    await served.request("PUT", f"{MAPS}/one", update)
    assert "managedFields" not in json.dumps(served.events)


@pytest.mark.parametrize(
    "accept",
    [
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/yaml;as=Table;g=meta.k8s.io;v=v1",
    ],
)
async def test_responses_are_recorded_as_json_in_any_encoding(env: Env, accept: str) -> None:
    served = await _started(env, PolicyRule("RequestResponse", omit_stages=("RequestReceived",)))
    await served.request("POST", MAPS, ONE)
    for target in (f"{MAPS}/one", MAPS):
        await served.request("GET", target, headers={**ADMIN, "accept": accept})
    _create, one, listed = served.events
    kinds = ("Table", "Table") if "Table" in accept else ("ConfigMap", "ConfigMapList")
    assert (one["responseObject"]["kind"], listed["responseObject"]["kind"]) == kinds


async def test_discovery_responses_are_recorded_and_other_documents_are_not(env: Env) -> None:
    served = await _started(env, PolicyRule("RequestResponse", omit_stages=("RequestReceived",)))
    await served.request("GET", "/api/v1")
    await served.request("GET", "/version")
    await served.request("GET", "/nothing")
    discovery, version, nothing = served.events
    assert discovery["responseObject"]["kind"] == "APIResourceList"
    assert "objectRef" not in discovery
    assert "responseObject" not in version
    assert nothing["responseStatus"]["code"] == 404


async def test_too_large_object_is_omitted(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (context_module, __import__("pilothouse.apiserver.server", fromlist=["server"])):
        monkeypatch.setattr(module, "MAX_OBJECT", 1000)
    served = await _started(env, PolicyRule("RequestResponse", omit_stages=("RequestReceived",)))
    await served.request("POST", MAPS, {"metadata": {"name": "one"}, "data": {"a": "x" * 2000}})
    await served.request("GET", MAPS)
    for event in served.events:
        assert event["annotations"]["audit.k8s.io/truncated"] == "true"
        assert not {"requestObject", "responseObject"} & set(event)


async def test_user_agent_is_truncated(env: Env) -> None:
    served = await _started(env, PolicyRule("Metadata", omit_stages=("RequestReceived",)))
    await served.request("GET", MAPS, headers={**ADMIN, "user-agent": "x" * 2000})
    assert served.events[0]["userAgent"] == "x" * 1024 + "...TRUNCATED"


class Annotating(Plugin):
    """A plugin that annotates."""

    def admit(self, write: AdmissionAttributes) -> None:
        add_audit_annotation("example.com/a", "1")
        add_audit_annotation("example.com/a", "2")
        add_audit_annotation("example.com/request", "only", "Request")


@pytest.mark.parametrize(("level", "more"), [("Metadata", {}), ("Request", {"example.com/request": "only"})])
async def test_handler_annotations(
    env: Env, level: str, more: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    served = await _started(env, PolicyRule(level, omit_stages=("RequestReceived",)))
    served.server.core.admission.plugins.append(Annotating())
    await served.request("POST", MAPS, ONE)
    (event,) = served.events
    annotations = {key: value for key, value in event["annotations"].items() if key.startswith("example.com")}
    assert annotations == {"example.com/a": "1", **more}
    assert "An audit annotation has already been set to another value" in caplog.text


async def test_no_audit_context_without_a_policy(env: Env) -> None:
    observed: list[object] = []

    class Looking(Plugin):
        def admit(self, write: AdmissionAttributes) -> None:
            add_audit_annotation("example.com/a", "1")
            observed.append(audit_context())

    server = ApiServer(env, new_store(env))
    server.core.admission.plugins.append(Looking())
    answer = await server.transport("admin").request(Request("POST", MAPS, JSON, json.dumps(ONE).encode()))
    assert answer.status == 201
    assert observed == [None]


@pytest.mark.parametrize(
    ("forwarded", "real", "remote", "expected"),
    [
        ("", "", "192.0.2.1", ["192.0.2.1"]),
        ("", "", "", []),
        ("10.0.0.1, 10.0.0.2", "", "192.0.2.1", ["10.0.0.1", "10.0.0.2", "192.0.2.1"]),
        ("10.0.0.1,192.0.2.1", "", "192.0.2.1", ["10.0.0.1", "192.0.2.1"]),
        ("192.0.2.1,10.0.0.1", "", "192.0.2.1", ["192.0.2.1", "10.0.0.1", "192.0.2.1"]),
        ("nonsense,10.0.0.1", "10.0.0.1", "::1", ["10.0.0.1", "::1"]),
        ("", "10.0.0.3", "::ffff:192.0.2.1", ["10.0.0.3", "192.0.2.1"]),
    ],
)
async def test_source_ips(forwarded: str, real: str, remote: str, expected: list[str]) -> None:
    headers = {"x-forwarded-for": forwarded, "x-real-ip": real}
    assert list(source_ips({key: value for key, value in headers.items() if value}, remote)) == expected
