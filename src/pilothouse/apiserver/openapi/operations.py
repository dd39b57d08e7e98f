"""The paths and operations of an OpenAPI v3 document.

Operations have the ids, descriptions, parameters and bodies of upstream's (apiserver ``pkg/endpoints/installer.go``,
kube-openapi and ``pkg/endpoints/openapi``, v0.36), from which clients are generated.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.api import schema
from pilothouse.apiserver.openapi.schemas import V3
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.resources import ResourceInfo, Subresource
from pilothouse.apiserver.serializers import negotiation

_STRING: Mapping[str, Any] = {"type": "string", "uniqueItems": True}
_FLAG: Mapping[str, Any] = {"type": "boolean", "uniqueItems": True}
_NUMBER: Mapping[str, Any] = {"type": "integer", "uniqueItems": True}
_WRITE = {"dryRun": _STRING, "fieldManager": _STRING, "fieldValidation": _STRING}
_SELECTION = {
    "continue": _STRING,
    "fieldSelector": _STRING,
    "labelSelector": _STRING,
    "limit": _NUMBER,
    "resourceVersion": _STRING,
    "resourceVersionMatch": _STRING,
    "sendInitialEvents": _FLAG,
    "timeoutSeconds": _NUMBER,
}
_LIST = {"allowWatchBookmarks": _FLAG, **_SELECTION, "watch": _FLAG}
_DELETE = {
    "dryRun": _STRING,
    "gracePeriodSeconds": _NUMBER,
    "orphanDependents": _FLAG,
    "propagationPolicy": _STRING,
}
_ACTIONS: Mapping[str, tuple[str, str, Mapping[str, Mapping[str, Any]]]] = {
    "get": ("get", "get", {}),
    "list": ("get", "list", _LIST),
    "create": ("post", "post", _WRITE),
    "update": ("put", "put", _WRITE),
    "patch": ("patch", "patch", {**_WRITE, "force": _FLAG}),
    "delete": ("delete", "delete", _DELETE),
    "deletecollection": ("delete", "deletecollection", {**_SELECTION, **_DELETE}),
}
"""Verb → (method, x-kubernetes-action, query parameters)."""

_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_NAMES = {"get": "read", "update": "replace", "deletecollection": "delete"}
"""The beginning of operation ids, if it is not the verb."""
_CONNECTING = frozenset(("exec", "attach", "portforward", "proxy"))
_OK, _CREATED, _ACCEPTED = ("200", "OK"), ("201", "Created"), ("202", "Accepted")
_RESPONSES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "create": (_OK, _CREATED, _ACCEPTED),
    "update": (_OK, _CREATED),
    "patch": (_OK, _CREATED),
    "delete": (_OK, _ACCEPTED),
}
_MEDIA_TYPES = (negotiation.JSON, "application/vnd.kubernetes.protobuf", "application/yaml")
_STREAMS = (f"{negotiation.JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


def add_paths(paths: dict[str, Any], info: ResourceInfo, name: str | None) -> None:
    """Add the path items of a resource; ``name`` is the name of its schema."""
    root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    collection = f"{root}/namespaces/{{namespace}}/{info.resource}" if info.namespaced else f"{root}/{info.resource}"
    item = f"{collection}/{{name}}"
    verbs_by_path: dict[str, list[str]] = {
        collection: [verb for verb in ("list", "create", "deletecollection") if verb in info.verbs],
        item: [verb for verb in ("get", "update", "patch", "delete") if verb in info.verbs],
    }
    if info.namespaced and "list" in info.verbs:
        verbs_by_path[f"{root}/{info.resource}"] = ["list"]
    for path, verbs in verbs_by_path.items():
        if verbs:
            paths[path] = _path_item(info, path, verbs, name)
    for subresource, sub in info.subresources.items():
        verbs = [verb for verb in ("get", "create", "update", "patch") if verb in sub.verbs]
        if verbs:
            paths[f"{item}/{subresource}"] = _path_item(
                info, f"{item}/{subresource}", verbs, _schema_of_subresource(info, subresource, sub, name), subresource
            )


def _schema_of_subresource(info: ResourceInfo, subresource: str, sub: Subresource, name: str | None) -> str | None:
    if sub.kind == info.kind:
        return name if subresource != "log" else None
    definition = schema.load().for_kind(sub.group or info.group, sub.version or info.version, sub.kind)
    return definition.name if definition is not None else None


def _path_item(
    info: ResourceInfo, path: str, verbs: Iterable[str], name: str | None, subresource: str = ""
) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    sub = info.subresources.get(subresource)
    kind = {"group": info.group, "kind": info.kind, "version": info.version}
    if sub is not None:
        kind = {"group": sub.group or info.group, "kind": sub.kind, "version": sub.version or info.version}
    for verb in verbs:
        method, action, parameters = _ACTIONS[verb]
        operation: dict[str, Any] = {
            "tags": [_tag(info)],
            "description": _description(info, verb, method, subresource),
            "operationId": _operation_id(info, verb, method, subresource, path),
            "parameters": [
                {"name": parameter, "in": "query", "schema": dict(shape)} for parameter, shape in parameters.items()
            ],
            "responses": _responses(info, verb, subresource, _response_schema(info, verb, name)),
            "x-kubernetes-action": action if subresource not in _CONNECTING else "connect",
            "x-kubernetes-group-version-kind": kind,
        }
        body = _request_body(info, verb, name)
        if body is not None:
            operation["requestBody"] = body
        operations[method] = operation
    operations["parameters"] = [
        {
            "name": parameter,
            "in": "path",
            "description": description,
            "required": True,
            "schema": dict(_STRING),
        }
        for parameter, description in (
            ("name", f"name of the {sub.kind if sub is not None else info.kind}"),
            ("namespace", "object name and auth scope, such as for teams and projects"),
        )
        if f"{{{parameter}}}" in path
    ] + [{"name": "pretty", "in": "query", "schema": dict(_STRING)}]
    return operations


def _request_body(info: ResourceInfo, verb: str, name: str | None) -> dict[str, Any] | None:
    if verb in ("create", "update"):
        return {"content": {"*/*": _reference(name)}, "required": True} if name else None
    if verb == "patch":
        # kubectl apply uses strategic merge patch if it is in this list; custom resources do not support it.
        patch_types = _PATCH_TYPES if info.custom is None else _PATCH_TYPES[:-1]
        return {"content": {text: {"schema": {"type": "object"}} for text in patch_types}, "required": True}
    if verb in ("delete", "deletecollection"):
        return {"content": {"*/*": _reference(_name_of("", "v1", "DeleteOptions"))}}
    return None


def _response_schema(info: ResourceInfo, verb: str, name: str | None) -> str | None:
    if verb == "list":
        if info.custom is None:
            return _name_of(info.group, info.version, info.list_kind)
        return f"{name}List" if name else None
    if verb == "deletecollection" or (verb == "delete" and not _returns_deleted_object(info)):
        return _name_of("", "v1", "Status")
    return name


def _returns_deleted_object(info: ResourceInfo) -> bool:
    if info.resource == "namespaces":
        return False  # upstream's storage of namespaces hides that of the generic registry
    return info.custom is None and registration_of(info.group, info.resource).strategy.return_deleted_object


def _name_of(group: str, version: str, kind: str) -> str | None:
    definition = schema.load().for_kind(group, version, kind)
    return definition.name if definition is not None else None


def _reference(name: str | None) -> dict[str, Any]:
    return {"schema": {"$ref": f"{V3}{name}"}}


def _responses(info: ResourceInfo, verb: str, subresource: str, name: str | None) -> dict[str, Any]:
    if subresource == "log" or subresource in _CONNECTING:
        types_of_text = ("*/*",) if subresource != "log" else (*_MEDIA_TYPES, "text/plain")
        text_content = {media_type: {"schema": {"type": "string"}} for media_type in sorted(types_of_text)}
        return {"200": {"description": "OK", "content": text_content}, "401": {"description": "Unauthorized"}}
    types = _MEDIA_TYPES if info.custom is None else (negotiation.JSON, "application/yaml")
    if verb == "list" and info.custom is None:
        types = (*types, *_STREAMS)
    content = {"content": {media_type: _reference(name) for media_type in sorted(types)}} if name else {}
    responses = {code: {"description": text, **content} for code, text in _RESPONSES.get(verb, (_OK,))}
    return {**responses, "401": {"description": "Unauthorized"}}


def _operation_id(info: ResourceInfo, verb: str, method: str, subresource: str, path: str) -> str:
    group = "".join(word.capitalize() for word in _group_words(info))
    prefix = group + info.version.capitalize()
    namespaced = "Namespaced" if "{namespace}" in path else ""
    if subresource in _CONNECTING:
        return f"connect{prefix}{method.capitalize()}{namespaced}{info.kind}{subresource.capitalize()}"
    collection = "Collection" if verb == "deletecollection" else ""
    suffix = "ForAllNamespaces" if info.namespaced and not namespaced else ""
    name = f"{namespaced}{info.kind}{subresource.capitalize()}{suffix}"
    return f"{_NAMES.get(verb, verb)}{prefix}{collection}{name}"


def _description(info: ResourceInfo, verb: str, method: str, subresource: str) -> str:
    kind = info.kind
    if subresource in _CONNECTING:
        return f"connect {method.upper()} requests to {subresource} of {kind}"
    plural = kind.endswith("s") and not kind.endswith("ss")
    article = "" if plural else "an " if kind[0] in "AEIOU" else "a "
    part = f"{subresource} of " if subresource else ""
    match verb:
        case "list":
            watch = "or watch " if info.custom is None and "watch" in info.verbs else ""
            return f"list {watch}objects of kind {kind}"
        case "deletecollection":
            return f"delete collection of {kind}"
        case "create" | "delete":
            return f"{verb} {part}{article}{kind}"
        case "patch":
            return f"partially update {part}the specified {kind}"
        case _:
            return f"{_NAMES[verb]} {part}the specified {kind}"


def _group_words(info: ResourceInfo) -> list[str]:
    return (info.group.removesuffix(".k8s.io") or "core").split(".")


def _tag(info: ResourceInfo) -> str:
    first, *remaining = _group_words(info)
    return f"{first}{''.join(word.capitalize() for word in remaining)}_{info.version}"
