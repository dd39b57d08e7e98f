"""Verb, resource, namespace and name of a request, parsed from method and path as an API server does.

For the interceptor's rules and all observers of requests (traces, invariants).
"""

from urllib.parse import parse_qs, unquote

import msgspec

from pilothouse.api import wire


class RequestInfo(msgspec.Struct, frozen=True, gc=False):
    """One request, in words. ``verb`` is the audit verb: get, list, watch, create, update, patch, delete,
    deletecollection; for paths that are no resource it is the method in lower case and ``resource`` is empty."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def is_write(self) -> bool:
        """Whether the request may change something."""
        return self.verb not in {"get", "list", "watch", "head", "options"}

    @property
    def group_resource(self) -> str:
        """``replicasets.apps``, or ``pods`` for the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        resource_text = (
            f"{self.group_resource}/{self.subresource}" if self.subresource else self.group_resource or self.path
        )
        return f"{self.verb} {resource_text} {name}".rstrip()


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_PARTS = {"status", "finalize"}


def describe(request: wire.Request) -> RequestInfo:
    """Parse a request (apiserver ``endpoints/request/requestinfo.go``, v0.36)."""
    path, _, query = request.target.partition("?")
    parts = [part for part in path.split("/") if part]
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(request.method.lower(), path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        # /namespaces/x/status is the subresource of the namespace, /namespaces/x/pods are its pods.
        if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            rest = rest[2:]
    resource, name, subresource = rest[0], rest[1] if len(rest) > 1 else "", "/".join(rest[2:])
    verb = _VERBS.get(request.method, request.method.lower())
    if not name and verb == "get":
        watching = parse_qs(query).get("watch", [""])[0].lower() in {"true", "1"}
        verb = "watch" if watching else "list"
    elif not name and verb == "delete":
        verb = "deletecollection"
    return RequestInfo(verb, path, group, version, resource, subresource, namespace, name)
