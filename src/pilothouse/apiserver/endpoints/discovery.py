"""Discovery: aggregated discovery v2 and the legacy documents per group.

Functions of a ``ResourceTable``; ``Discovery`` caches the documents until the table changes. Format and order are those
of kube-apiserver v1.36.2.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable, Subresource
from pilothouse.apiserver.serializers import negotiation
from pilothouse.apiserver.serializers.json import JSON_HEADERS
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bounded_cache import bounded_cache

with lazy_imports():
    from pilothouse.apiserver.serializers import protobuf, yaml_text


_encode = msgspec.json.Encoder().encode

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_STORED_AS = {
    ("autoscaling", "HorizontalPodAutoscaler"): "autoscaling/v2/HorizontalPodAutoscaler",
    ("events.k8s.io", "Event"): "/v1/Event",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "apiextensions.k8s.io/v1beta1/CustomResourceDefinition",
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): (
        "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): (
        "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicyBinding"
    ),
}
"""Kinds that v1.36 stores in another version than the served one."""
_VERBS_OF_CUSTOM = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_VERBS_OF_TERMINATING = ("delete", "deletecollection", "get", "list", "watch")
_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?$")


def version_rank(version: str) -> tuple[Any, ...]:
    """Sort key of versions as ``CompareKubeAwareVersionStrings``: GA before beta before alpha, then descending numbers,
    then other names."""
    match = _VERSION.match(version)
    if match is None:
        return (1, version)
    major, stage, minor = match.groups()
    return (0, {None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0))


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """The storage version hash of a kind."""
    text = f"{group}/{version}/{kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _storage_version_hash(info: ResourceInfo) -> str:
    if "get" not in info.verbs or info.resource == "componentstatuses":
        return ""
    if info.custom is not None:
        version = getattr(info.custom, "storage_version", "") or info.version
        return storage_version_hash(info.group, version, info.kind)
    group, version, kind = _STORED_AS.get((info.group, info.kind), f"{info.group}/{info.version}/{info.kind}").split(
        "/"
    )
    return storage_version_hash(group, version, kind)


def groups(table: Iterable[ResourceInfo]) -> dict[str, dict[str, list[ResourceInfo]]]:
    """Group → version → resources. Built-in groups keep the table's order; custom ones follow by name."""
    built_in: dict[str, dict[str, list[ResourceInfo]]] = {}
    custom: dict[str, dict[str, list[ResourceInfo]]] = {}
    for info in table:
        groups_of_kind = custom if info.custom is not None and info.group not in built_in else built_in
        groups_of_kind.setdefault(info.group, {}).setdefault(info.version, []).append(info)
    all_groups = dict(built_in)
    for group in sorted(custom):
        versions = custom[group]
        all_groups[group] = {
            version: sorted(versions[version], key=lambda info: info.resource)
            for version in sorted(versions, key=version_rank)
        }
    return all_groups


def _verbs(info: ResourceInfo) -> list[str]:
    """The verbs as listed: those of custom resources in apiextensions-apiserver's order, without creates during
    termination."""
    if info.custom is None:
        return list(info.verbs)
    return list(_VERBS_OF_TERMINATING if info.custom.terminating else _VERBS_OF_CUSTOM)


def _subresources(info: ResourceInfo) -> list[tuple[str, Subresource]]:
    """Built-in subresources by name; for custom resources status before scale."""
    if info.custom is not None:
        return list(info.subresources.items())
    return sorted(info.subresources.items())


def _aggregated_entry(info: ResourceInfo) -> dict[str, Any]:
    # Entries of built-in resources leave out the group and version of the document, those of custom resources have
    # them.
    own_group_version = (info.group, info.version) if info.custom is not None else ("", "")
    entry: dict[str, Any] = {
        "resource": info.resource,
        "responseKind": {"group": own_group_version[0], "version": own_group_version[1], "kind": info.kind},
        "scope": "Namespaced" if info.namespaced else "Cluster",
        "singularResource": info.singular,
        "verbs": _verbs(info),
    }
    if info.short_names:
        entry["shortNames"] = list(info.short_names)
    if info.categories:
        entry["categories"] = list(info.categories)
    if info.subresources:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": {
                    "group": sub.group or own_group_version[0],
                    "version": sub.version or own_group_version[1],
                    "kind": sub.kind,
                },
                "verbs": list(sub.verbs),
            }
            for name, sub in _subresources(info)
        ]
    return entry


def aggregated(table: Iterable[ResourceInfo], *, core: bool) -> dict[str, Any]:
    """The document of ``/api`` (``core``) or ``/apis``."""
    items = []
    for group, versions in groups(table).items():
        if (group == "") != core:
            continue
        items.append(
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_entry(info) for info in infos],
                        "freshness": "Current",
                    }
                    for version, infos in versions.items()
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def resource_list(group: str, version: str, infos: Iterable[ResourceInfo]) -> dict[str, Any]:
    """``APIResourceList`` of one group and version."""
    entries: list[dict[str, Any]] = []
    for info in infos:
        entry: dict[str, Any] = {
            "name": info.resource,
            "singularName": info.singular,
            "namespaced": info.namespaced,
            "kind": info.kind,
            "verbs": _verbs(info),
        }
        if info.short_names:
            entry["shortNames"] = list(info.short_names)
        if info.categories:
            entry["categories"] = list(info.categories)
        if stored := _storage_version_hash(info):
            entry["storageVersionHash"] = stored
        entries.append(entry)
        for name, sub in _subresources(info):
            entry = {"name": f"{info.resource}/{name}", "singularName": "", "namespaced": info.namespaced}
            if sub.group or sub.version:
                entry["group"] = sub.group
                entry["version"] = sub.version
            entry["kind"] = sub.kind
            entry["verbs"] = list(sub.verbs)
            entries.append(entry)
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),  # as upstream
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def group_entry(group: str, versions: Iterable[str]) -> dict[str, Any]:
    """One group of ``APIGroupList``."""
    version_entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": version_entries, "preferredVersion": version_entries[0]}


class Discovery:
    """Serves ``/api``, ``/apis`` and the groups and versions below."""

    def __init__(self, table: ResourceTable, address: str) -> None:
        self._table = table
        self._address = address
        self._generation = -1
        self._groups: dict[str, dict[str, list[ResourceInfo]]] = {}
        self._aggregated: dict[bool, tuple[bytes, str]] = {}

    def handle(self, request: Request, path: str) -> Response | None:
        """The response for a path, or None if the path is not part of discovery.

        An unknown group, or unknown version of a custom group, is a 404 in plain text.
        """
        segments = [segment for segment in path.split("/") if segment]
        if not segments or segments[0] not in ("api", "apis") or len(segments) > 1 + (segments[0] == "apis") + 1:
            return None
        if request.method != "GET" and (segments[0] == "api" or len(segments) == 3):
            # The list of groups and groups are served in any method: they are not routed by go-restful.
            raise errors.method_not_allowed()
        self._refresh()
        core = segments[0] == "api"
        if len(segments) == 1:
            return self._root(request, core=core)
        if core:
            if segments[1] not in self._groups[""]:
                raise errors.no_such_resource()
            return _negotiated_response(request, resource_list("", segments[1], self._groups[""][segments[1]]))
        versions = self._groups.get(segments[1])
        if versions is None or not segments[1]:
            raise errors.PlainNotFound
        if len(segments) == 2:
            return _negotiated_response(
                request, {"kind": "APIGroup", "apiVersion": "v1", **group_entry(segments[1], versions)}
            )
        if segments[2] not in versions:
            raise errors.no_such_resource() if self._table.is_built_in(segments[1]) else errors.PlainNotFound
        return _negotiated_response(request, resource_list(segments[1], segments[2], versions[segments[2]]))

    def _refresh(self) -> None:
        if self._generation != self._table.generation:
            self._generation = self._table.generation
            self._groups = groups(self._table)
            self._aggregated.clear()

    def _root(self, request: Request, *, core: bool) -> Response:
        if _wants_aggregated(request.headers.get("accept", "")):
            return self._aggregated_root(request, core=core)
        if core:
            document: dict[str, Any] = {
                "kind": "APIVersions",
                "versions": list(self._groups[""]),
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}],
            }
        else:
            group_entries = [group_entry(group, versions) for group, versions in self._groups.items() if group]
            document = {"kind": "APIGroupList", "apiVersion": "v1", "groups": group_entries}
        return _negotiated_response(request, document)

    def _aggregated_root(self, request: Request, *, core: bool) -> Response:
        cached = self._aggregated.get(core)
        if cached is None:
            body = _encode(aggregated(self._table, core=core))
            cached = self._aggregated[core] = body, f'"{hashlib.sha512(body).hexdigest().upper()}"'
        body, etag = cached
        headers = {"etag": etag, "vary": "Accept", "cache-control": "public"}
        if request.headers.get("if-none-match", "") == etag:
            return Response(304, headers)
        return Response(200, {**headers, "content-type": AGGREGATED}, body)


@bounded_cache(64)
def _wants_aggregated(accept: str) -> bool:
    """Whether any clause requests it, also after others (``WrapAggregatedDiscoveryToHandler``)."""
    return any(
        clause.media == negotiation.JSON
        and [clause.parameter(name) for name in ("as", "g", "v")]
        == ["APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2"]
        for clause in negotiation.parse_accept(accept)
    )


def _negotiated_response(request: Request, document: dict[str, Any]) -> Response:
    """A legacy document as JSON or, on request, YAML or protobuf."""
    accept, is_root = request.headers.get("accept", ""), document["kind"] == "APIGroupList"
    if is_root:
        accept = accept.replace("application/*", "*/*")  # not routed by upstream's router
    try:
        choice = negotiation.choose(accept, protobuf=True, table=False)
    except negotiation.NotAcceptable as error:
        message = negotiation.UNSUPPORTED_MEDIA_TYPES if is_root else str(error)
        details: dict[str, Any] | None = {} if message == negotiation.UNKNOWN_MEDIA_TYPES else None
        raise StatusError(406, "NotAcceptable", message, details=details) from None
    if choice.media == negotiation.PROTOBUF and not choice.transform:
        body = protobuf.encode_object({"apiVersion": "v1", **document})
        return Response(200, {**JSON_HEADERS, "content-type": negotiation.PROTOBUF}, body)
    if choice.media == negotiation.YAML:
        return Response(200, {**JSON_HEADERS, "content-type": negotiation.YAML}, yaml_text.to_yaml(document))
    return Response(200, JSON_HEADERS, _encode(document))
