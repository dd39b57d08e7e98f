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


class Asked(NamedTuple):
    """One request. ``body`` is sent as JSON unless it is a string."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}


def asked(namespace: str) -> Iterator[Asked]:
    """The requests of each administrator, in a separate namespace."""
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    maps, secrets, deployments = f"{core}/configmaps", f"{core}/secrets", f"{apps}/deployments"
    yield Asked("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    # Writes
    one = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "one"}, "data": {"a": '<b> & "c"'}}
    yield Asked("POST", maps, one)
    yield Asked("POST", maps, one)
    yield Asked("POST", maps, {"metadata": {"name": "two", "labels": {"of": "two"}}})
    yield Asked("POST", maps, {"metadata": {"name": "Not A Name"}})
    yield Asked("POST", maps, {"metadata": {"name": "three"}, "data": "no map"})
    yield Asked("POST", maps, "{no json")
    yield Asked("POST", maps, {"metadata": {"name": "three", "namespace": "another"}})
    yield Asked("POST", f"{maps}?dryRun=All", {"metadata": {"name": "three"}})
    yield Asked("POST", f"{maps}?dryRun=Some", {"metadata": {"name": "three"}})
    yield Asked("POST", maps, "metadata:\n  name: four\ndata:\n  a: b\n", "application/yaml")
    yield Asked("POST", maps, json.dumps(one, indent=2).replace('"one"', '"five"'))
    yield Asked("POST", maps, "<a/>", "text/xml")
    yield Asked("PUT", f"{maps}/one", {**one, "data": {"a": "d"}})
    yield Asked("PUT", f"{maps}/one", {**one, "metadata": {"name": "one", "resourceVersion": "1"}})
    yield Asked("PUT", f"{maps}/none", {**one, "metadata": {"name": "none"}})
    yield Asked("PATCH", f"{maps}/one", {"data": {"b": "1"}}, MERGE)
    yield Asked("PATCH", f"{maps}/one", {"data": {"c": "1"}}, STRATEGIC)
    yield Asked("PATCH", f"{maps}/one", [{"op": "add", "path": "/data/d", "value": "1"}], JSON_PATCH)
    yield Asked("PATCH", f"{maps}/one", [{"op": "remove", "path": "/data/none"}], JSON_PATCH)
    yield Asked("PATCH", f"{maps}/one", '{\n  "data": {"e": "1"}\n}', MERGE)
    yield Asked("PATCH", f"{maps}/one?fieldManager=me&force=true", {**one, "data": {"f": "1"}}, APPLY)
    yield Asked("PATCH", f"{maps}/none", {"data": {"b": "1"}}, MERGE)
    yield Asked("PATCH", f"{maps}/one", {"data": {"b": "1"}}, "application/json")
    # Reads
    yield Asked("GET", f"{maps}/one")
    yield Asked("GET", f"{maps}/none")
    yield Asked("GET", f"{maps}?labelSelector=of%3Dtwo")
    yield Asked("GET", f"{maps}?fieldSelector=metadata.name%3Dtwo")
    yield Asked(
        "GET", f"{maps}/two", headers={"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    )
    yield Asked("GET", f"{maps}/two", headers={"Accept": "application/yaml"})
    yield Asked("GET", f"{maps}/two", headers={"Accept": "application/vnd.kubernetes.protobuf"})
    yield Asked("GET", f"{maps}/two", headers={"Accept": "text/xml"})
    yield Asked("GET", f"{maps}?labelSelector=a%20b%20c")
    yield Asked("GET", f"{maps}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone")
    yield Asked("HEAD", f"{maps}/two")
    # Secrets
    yield Asked("POST", secrets, {"metadata": {"name": "quiet"}, "stringData": {"a": "b"}})
    yield Asked("GET", f"{secrets}/quiet")
    # Deployments and subresources
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    yield Asked("POST", deployments, {"metadata": {"name": "web"}, "spec": spec})
    yield Asked("POST", deployments, {"metadata": {"name": "bad"}, "spec": {"template": template}})
    yield Asked("GET", f"{deployments}/web/scale")
    scale = {"metadata": {"name": "web", "namespace": namespace}, "spec": {"replicas": 3}}
    yield Asked("PUT", f"{deployments}/web/scale", scale)
    yield Asked("PATCH", f"{deployments}/web/scale", {"spec": {"replicas": 2}}, MERGE)
    yield Asked("PATCH", f"{deployments}/web/status", {"status": {"replicas": 2}}, MERGE)
    pods = f"{core}/pods"
    yield Asked("POST", pods, {"metadata": {"name": "pod", "labels": labels}, "spec": template["spec"]})
    yield Asked("GET", f"{pods}/pod/log")
    yield Asked("POST", f"{pods}/pod/exec?command=ls")
    yield Asked("GET", f"{pods}/none/log?follow=true")
    yield Asked(
        "POST", f"{pods}/pod/binding", {"target": {"kind": "Node", "name": "node"}, "metadata": {"name": "pod"}}
    )
    yield Asked(
        "POST",
        f"{pods}/pod/eviction",
        {"kind": "Eviction", "apiVersion": "policy/v1beta1", "metadata": {"name": "pod"}},
    )
    accounts = f"{core}/serviceaccounts"
    yield Asked("POST", accounts, {"metadata": {"name": "robot"}})
    yield Asked("POST", f"{accounts}/robot/token", {"spec": {"expirationSeconds": 600}})
    # Custom resources
    widgets = f"/apis/example.com/v1/namespaces/{namespace}/widgets"
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"size": 1}}
    yield Asked("POST", widgets, widget)
    yield Asked("POST", widgets, {**widget, "spec": {"size": "large"}})
    yield Asked("PATCH", f"{widgets}/w", {"spec": {"size": 2}}, MERGE)
    yield Asked("PATCH", f"{widgets}/w", {"spec": {"size": 2}}, STRATEGIC)
    yield Asked("GET", f"{widgets}/w")
    yield Asked("DELETE", f"{widgets}/w")
    # Deletions
    yield Asked("DELETE", f"{maps}/two")
    yield Asked("DELETE", f"{maps}/none")
    background = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    yield Asked("DELETE", f"{maps}/four", background)
    yield Asked("DELETE", f"{deployments}/web", {"gracePeriodSeconds": 0})
    yield Asked("DELETE", f"{maps}/one", {"preconditions": {"uid": "another"}})
    yield Asked("DELETE", f"{maps}/one", {**background, "propagationPolicy": "Sometimes"})
    yield Asked("DELETE", f"{secrets}?labelSelector=a%3Db")
    yield Asked("DELETE", maps, background)
    # Reviews
    attributes = {"resource": "pods", "verb": "get"}
    review = {"spec": {"user": "jane", "resourceAttributes": attributes}}
    yield Asked("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    # Others' eyes
    yield Asked("GET", f"{maps}", headers={"Impersonate-User": "jane", "Impersonate-Group": "developers"})
    yield Asked(
        "GET",
        f"{maps}",
        headers={
            "Impersonate-User": "root",
            "Impersonate-Group": "system:masters",
            "Impersonate-Extra-Scopes": "a",
        },
    )
    yield Asked("GET", f"{maps}", headers={"Impersonate-Group": "system:masters"})
    # What is no resource, and what there is not
    yield Asked("GET", "/healthz")
    yield Asked("GET", "/version")
    yield Asked("GET", "/nothing/here")
    yield Asked("GET", "/api/v1/nothing")
    yield Asked("GET", "/apis/none.example.com/v1/things")
    yield Asked("POST", "/healthz")
    yield Asked("PATCH", maps, {}, MERGE)
    yield Asked("GET", f"{maps}?timeout=never")
    yield Asked("GET", maps, headers={"X-Forwarded-For": "10.1.2.3, 10.1.2.4", "X-Real-Ip": "10.1.2.5"})
    yield Asked("GET", maps, headers={"User-Agent": "x" * 1100})


def others() -> Iterator[Asked]:
    """Requests without rights, or without authentication."""
    maps = "/api/v1/namespaces/default/configmaps"
    jane, unauthenticated = {"Authorization": "Bearer jane-token"}, {"Authorization": "Bearer wrong"}
    yield Asked("GET", maps, headers=jane)
    yield Asked("POST", maps, {"metadata": {"name": "janes"}}, headers=jane)
    yield Asked("GET", f"{maps}?watch=1", headers=jane)
    yield Asked("GET", "/metrics", headers=jane)
    yield Asked("GET", "/version", headers=jane)
    yield Asked("GET", maps, headers={**jane, "Impersonate-User": "root"})
    yield Asked("GET", maps, headers=unauthenticated)
    yield Asked("GET", "/version", headers=unauthenticated)
    yield Asked("GET", maps, headers={"Authorization": "Basic amFuZTpqYW5l"})
    yield Asked("GET", maps)
    yield Asked("GET", "/version")


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


def _send(connection: http.client.HTTPSConnection, one: Asked, headers: Mapping[str, str]) -> http.client.HTTPResponse:
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
    created = _send(connection, Asked("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CUSTOM), admin)
    assert created.status == 201
    request = Asked("GET", "/apis/example.com/v1/namespaces/default/widgets")
    until(lambda: _send(connection, request, admin).status == 200, "widgets are served")


def run(port: int, authority: Path | None) -> dict[str, tuple[Asked, int]]:
    """Send all requests; returns them with their status codes by Audit-ID."""
    context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    result: dict[str, tuple[Asked, int]] = {}
    with contextlib.closing(_connection(port, context)) as connection:
        _serve_custom_resources(connection)
    sessions = [(level, {"Authorization": f"Bearer {USERS[level]}"}, asked(f"audit-{level}")) for level in LEVELS]
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
