"""One session of requests for two API servers with audit logs: each level with separate users.

Each request brings its Audit-ID, so that the events of both servers can be held against each other.
"""

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.programs import until

LEVELS = ("none", "metadata", "request", "response")
USERS = {level: f"{level}-token" for level in LEVELS}
"""Administrators by their audit level."""
TOKENS = "".join(
    f'{token},{user},uid-{user},"{groups}"\n'
    for user, token, groups in (
        *((level, token, "system:masters") for level, token in USERS.items()),
        ("admin", "admin-token", "system:masters"),
        ("jane", "jane-token", "developers"),
    )
)
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: [none]
- level: RequestResponse
  users: [response]
  omitStages: [RequestReceived]
  resources:
  - group: ""
    resources: [secrets]
    resourceNames: [quiet]
- level: None
  users: [response]
  nonResourceURLs: ["/healthz*"]
- level: Metadata
  users: [metadata]
- level: Request
  users: [request]
  verbs: [list, watch]
  omitStages: [ResponseStarted, ResponseComplete]
- level: Request
  users: [request]
- level: RequestResponse
  users: [response]
- level: Metadata
  userGroups: [developers]
- level: RequestResponse
  userGroups: ["system:unauthenticated"]
- level: Metadata
"""

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
AGENT = "audit-session/1.0"


class AuditedRequest(NamedTuple):
    """One request. ``body`` is sent as JSON unless it is a string."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


def audited_requests(namespace: str) -> Iterator[AuditedRequest]:
    """The requests of each administrator, in a separate namespace."""
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    maps, secrets, deployments = f"{core}/configmaps", f"{core}/secrets", f"{apps}/deployments"
    yield AuditedRequest("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    # Writes
    one = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "one"}, "data": {"a": '<b> & "c"'}}
    yield AuditedRequest("POST", maps, one)
    yield AuditedRequest("POST", maps, one)
    yield AuditedRequest("POST", maps, {"metadata": {"name": "two", "labels": {"of": "two"}}})
    yield AuditedRequest("POST", maps, {"metadata": {"name": "Not A Name"}})
    yield AuditedRequest("POST", maps, {"metadata": {"name": "three"}, "data": "no map"})
    yield AuditedRequest("POST", maps, "{no json")
    yield AuditedRequest("POST", maps, {"metadata": {"name": "three", "namespace": "another"}})
    yield AuditedRequest("POST", f"{maps}?dryRun=All", {"metadata": {"name": "three"}})
    yield AuditedRequest("POST", f"{maps}?dryRun=Some", {"metadata": {"name": "three"}})
    yield AuditedRequest("POST", maps, "metadata:\n  name: four\ndata:\n  a: b\n", "application/yaml")
    yield AuditedRequest("POST", maps, json.dumps(one, indent=2).replace('"one"', '"five"'))
    yield AuditedRequest("POST", maps, "<a/>", "text/xml")
    yield AuditedRequest("PUT", f"{maps}/one", {**one, "data": {"a": "d"}})
    yield AuditedRequest("PUT", f"{maps}/one", {**one, "metadata": {"name": "one", "resourceVersion": "1"}})
    yield AuditedRequest("PUT", f"{maps}/none", {**one, "metadata": {"name": "none"}})
    yield AuditedRequest("PATCH", f"{maps}/one", {"data": {"b": "1"}}, MERGE)
    yield AuditedRequest("PATCH", f"{maps}/one", {"data": {"c": "1"}}, STRATEGIC)
    yield AuditedRequest("PATCH", f"{maps}/one", [{"op": "add", "path": "/data/d", "value": "1"}], JSON_PATCH)
    yield AuditedRequest("PATCH", f"{maps}/one", [{"op": "remove", "path": "/data/none"}], JSON_PATCH)
    yield AuditedRequest("PATCH", f"{maps}/one", '{\n  "data": {"e": "1"}\n}', MERGE)
    yield AuditedRequest("PATCH", f"{maps}/one?fieldManager=me&force=true", {**one, "data": {"f": "1"}}, APPLY)
    yield AuditedRequest("PATCH", f"{maps}/none", {"data": {"b": "1"}}, MERGE)
    yield AuditedRequest("PATCH", f"{maps}/one", {"data": {"b": "1"}}, "application/json")
    # Reads
    yield AuditedRequest("GET", f"{maps}/one")
    yield AuditedRequest("GET", f"{maps}/none")
    yield AuditedRequest("GET", f"{maps}?labelSelector=of%3Dtwo")
    yield AuditedRequest("GET", f"{maps}?fieldSelector=metadata.name%3Dtwo")
    yield AuditedRequest(
        "GET", f"{maps}/two", headers={"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    )
    yield AuditedRequest("GET", f"{maps}/two", headers={"Accept": "application/yaml"})
    yield AuditedRequest("GET", f"{maps}/two", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    yield AuditedRequest("GET", f"{maps}/two", headers={"Accept": "text/xml"})
    yield AuditedRequest("GET", f"{maps}?labelSelector=a%20b%20c")
    yield AuditedRequest("GET", f"{maps}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone")
    yield AuditedRequest("HEAD", f"{maps}/two")
    # Secrets
    yield AuditedRequest("POST", secrets, {"metadata": {"name": "quiet"}, "stringData": {"a": "b"}})
    yield AuditedRequest("GET", f"{secrets}/quiet")
    # Deployments and subresources
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    yield AuditedRequest("POST", deployments, {"metadata": {"name": "web"}, "spec": spec})
    yield AuditedRequest("POST", deployments, {"metadata": {"name": "bad"}, "spec": {"template": template}})
    yield AuditedRequest("GET", f"{deployments}/web/scale")
    scale = {"metadata": {"name": "web", "namespace": namespace}, "spec": {"replicas": 3}}
    yield AuditedRequest("PUT", f"{deployments}/web/scale", scale)
    yield AuditedRequest("PATCH", f"{deployments}/web/scale", {"spec": {"replicas": 2}}, MERGE)
    yield AuditedRequest("PATCH", f"{deployments}/web/status", {"status": {"replicas": 2}}, MERGE)
    pods = f"{core}/pods"
    yield AuditedRequest("POST", pods, {"metadata": {"name": "pod", "labels": labels}, "spec": template["spec"]})
    yield AuditedRequest("GET", f"{pods}/pod/log")
    yield AuditedRequest("POST", f"{pods}/pod/exec?command=ls")
    yield AuditedRequest("GET", f"{pods}/none/log?follow=true")
    yield AuditedRequest(
        "POST", f"{pods}/pod/binding", {"target": {"kind": "Node", "name": "node"}, "metadata": {"name": "pod"}}
    )
    yield AuditedRequest(
        "POST",
        f"{pods}/pod/eviction",
        {"kind": "Eviction", "apiVersion": "policy/v1beta1", "metadata": {"name": "pod"}},
    )
    accounts = f"{core}/serviceaccounts"
    yield AuditedRequest("POST", accounts, {"metadata": {"name": "robot"}})
    yield AuditedRequest("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    # Custom resources
    widgets = f"/apis/example.com/v1/namespaces/{namespace}/widgets"
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"size": 1}}
    yield AuditedRequest("POST", widgets, widget)
    yield AuditedRequest("POST", widgets, {**widget, "spec": {"size": "large"}})
    yield AuditedRequest("PATCH", f"{widgets}/w", {"spec": {"size": 2}}, MERGE)
    yield AuditedRequest("PATCH", f"{widgets}/w", {"spec": {"size": 2}}, STRATEGIC)
    yield AuditedRequest("GET", f"{widgets}/w")
    yield AuditedRequest("DELETE", f"{widgets}/w")
    # Deletions
    yield AuditedRequest("DELETE", f"{maps}/two")
    yield AuditedRequest("DELETE", f"{maps}/none")
    background = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    yield AuditedRequest("DELETE", f"{maps}/four", background)
    yield AuditedRequest("DELETE", f"{deployments}/web", {"gracePeriodSeconds": 0})
    yield AuditedRequest("DELETE", f"{maps}/one", {"preconditions": {"uid": "another"}})
    yield AuditedRequest("DELETE", f"{maps}/one", {**background, "propagationPolicy": "Sometimes"})
    yield AuditedRequest("DELETE", f"{secrets}?labelSelector=a%3Db")
    yield AuditedRequest("DELETE", maps, background)
    # Reviews
    attributes = {"resource": "pods", "verb": "get"}
    review = {"spec": {"user": "jane", "resourceAttributes": attributes}}
    yield AuditedRequest("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    # Others' eyes
    yield AuditedRequest("GET", f"{maps}", headers={"Impersonate-User": "jane", "Impersonate-Group": "developers"})
    yield AuditedRequest(
        "GET",
        f"{maps}",
        headers={
            "Impersonate-User": "root",
            "Impersonate-Group": "system:masters",
            "Impersonate-Extra-Scopes": "a",
        },
    )
    yield AuditedRequest("GET", f"{maps}", headers={"Impersonate-Group": "system:masters"})
    # What is no resource, and what there is not
    yield AuditedRequest("GET", "/healthz")
    yield AuditedRequest("GET", "/version")
    yield AuditedRequest("GET", "/nothing/here")
    yield AuditedRequest("GET", "/api/v1/nothing")
    yield AuditedRequest("GET", "/apis/none.example.com/v1/things")
    yield AuditedRequest("POST", "/healthz")
    yield AuditedRequest("PATCH", maps, {}, MERGE)
    yield AuditedRequest("GET", f"{maps}?timeout=never")
    yield AuditedRequest("GET", maps, headers={"X-Forwarded-For": "10.1.2.3, 10.1.2.4", "X-Real-Ip": "10.1.2.5"})
    yield AuditedRequest("GET", maps, headers={"User-Agent": "x" * 1100})


def others() -> Iterator[AuditedRequest]:
    """Requests without rights, or without authentication."""
    maps = "/api/v1/namespaces/default/configmaps"
    jane, unauthenticated = {"Authorization": "Bearer jane-token"}, {"Authorization": "Bearer wrong"}
    yield AuditedRequest("GET", maps, headers=jane)
    yield AuditedRequest("POST", maps, {"metadata": {"name": "janes"}}, headers=jane)
    yield AuditedRequest("GET", f"{maps}?watch=1", headers=jane)
    yield AuditedRequest("GET", "/metrics", headers=jane)
    yield AuditedRequest("GET", "/version", headers=jane)
    yield AuditedRequest("GET", maps, headers={**jane, "Impersonate-User": "root"})
    yield AuditedRequest("GET", maps, headers=unauthenticated)
    yield AuditedRequest("GET", "/version", headers=unauthenticated)
    yield AuditedRequest("GET", maps, headers={"Authorization": "Basic amFuZTpqYW5l"})
    yield AuditedRequest("GET", maps)
    yield AuditedRequest("GET", "/version")


CUSTOM = {
    "kind": "CustomResourceDefinition",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "color": {"type": "string", "default": "red"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


def _send(
    connection: http.client.HTTPSConnection, one: AuditedRequest, headers: Mapping[str, str]
) -> http.client.HTTPResponse:
    sent = {"User-Agent": AGENT, "Accept": "application/json", **headers, **one.headers}
    body = None
    if one.body is not None:
        body = one.body if isinstance(one.body, str) else json.dumps(one.body)
        sent["Content-Type"] = one.content_type
    connection.request(one.method, one.path, body, sent)
    answer = connection.getresponse()
    answer.read()
    return answer


def _serve_custom_resources(connection: http.client.HTTPSConnection) -> None:
    admin = {"Authorization": "Bearer admin-token"}
    created = _send(
        connection, AuditedRequest("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CUSTOM), admin
    )
    assert created.status == 201
    request = AuditedRequest("GET", "/apis/example.com/v1/namespaces/default/widgets")
    until(lambda: _send(connection, request, admin).status == 200, "widgets are served")


def run(port: int, authority: Path | None) -> dict[str, tuple[AuditedRequest, int]]:
    """Send all requests; returns them with their status codes by Audit-ID."""
    context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    result: dict[str, tuple[AuditedRequest, int]] = {}
    with contextlib.closing(_connection(port, context)) as connection:
        _serve_custom_resources(connection)
    sessions = [
        (level, {"Authorization": f"Bearer {USERS[level]}"}, audited_requests(f"audit-{level}")) for level in LEVELS
    ]
    for name, credentials, requests in (*sessions, ("others", {}, others())):
        with contextlib.closing(_connection(port, context)) as connection:
            for number, one in enumerate(requests):
                audit_id = f"{name}-{number:02}"
                answer = _send(connection, one, {**credentials, "Audit-ID": audit_id})
                # v1.20 has the header only where it records something.
                assert answer.headers.get("Audit-Id", audit_id) == audit_id
                result[audit_id] = one, answer.status
    return result


def _connection(port: int, context: ssl.SSLContext) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
