"""The paths and operations of an OpenAPI v3 document.

Operations have the ids, descriptions, parameters and bodies of upstream's (apiserver ``pkg/endpoints/installer.go``,
kube-openapi and ``pkg/endpoints/openapi``, v0.36), from which clients are generated.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.api import schema
from pilothouse.apiserver.openapi.facts import query_parameter, query_parameters_of
from pilothouse.apiserver.openapi.schemas import PATCH, V3
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.resources import ResourceInfo, Subresource
from pilothouse.apiserver.serializers import negotiation

_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_SELECTION = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
)
_LIST = ("allowWatchBookmarks", *_SELECTION, "watch")
_DELETE = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_ACTIONS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "get": ("get", "get", ()),
    "list": ("get", "list", _LIST),
    "create": ("post", "post", _WRITE),
    "update": ("put", "put", _WRITE),
    "patch": ("patch", "patch", ("dryRun", "patch/fieldManager", "fieldValidation", "force")),
    "delete": ("delete", "delete", _DELETE),
    "deletecollection": ("delete", "deletecollection", (*_SELECTION, *_DELETE)),
    "watch": ("get", "watch", _LIST),
    "watchlist": ("get", "watchlist", _LIST),
    "options": ("options", "connect", ()),
    "head": ("head", "connect", ()),
}
"""Verb → (method, x-kubernetes-action, query parameters)."""
_OF_CUSTOM = {"get": ("resourceVersion",), "deletecollection": _LIST}
"""Verb → query parameters of custom resources where they differ (apiextensions ``pkg/controller/openapi/builder``)."""
_SUBRESOURCE_VERBS = ("get", "create", "update", "patch", "delete")

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_VERSION = "io.k8s.apimachinery.pkg.version.Info"
_OPENID = {
    ".well-known/openid-configuration": (
        "WellKnown",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "Configuration",
        negotiation.JSON,
    ),
    "openid/v1/jwks": (
        "openid",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "Keyset",
        "application/jwk-set+json",
    ),
}
ROOTS = ("api", "apis", "version", *_OPENID)
"""The OpenAPI documents that are of no group."""
_DEPRECATED_WATCH = "deprecated: use the 'watch' parameter with a list operation instead"
_FILTERED = "filtered to a single item with the 'fieldSelector' parameter"
_PATCH_TYPES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_NAMES = {"get": "read", "update": "replace", "deletecollection": "delete", "watchlist": "watch"}
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
_CUSTOM_TYPES = (negotiation.JSON, "application/yaml")
_STREAMS = (f"{negotiation.JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


def add_paths(paths: dict[str, Any], info: ResourceInfo, name: str | None) -> None:
    """Add the path items of a resource; ``name`` is the name of its schema."""
    root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    scope = "/namespaces/{namespace}" if info.namespaced else ""
    collection, item = f"{root}{scope}/{info.resource}", f"{root}{scope}/{info.resource}/{{name}}"
    verbs_by_path: dict[str, list[str]] = {
        collection: [verb for verb in ("list", "create", "deletecollection") if verb in info.verbs],
        item: [verb for verb in ("get", "update", "patch", "delete") if verb in info.verbs],
    }
    if info.namespaced and "list" in info.verbs:
        verbs_by_path[f"{root}/{info.resource}"] = ["list"]
    if info.custom is None and "watch" in info.verbs:
        watched = f"{root}/watch"
        verbs_by_path[f"{watched}/{info.resource}"] = ["watchlist"]
        verbs_by_path[f"{watched}{scope}/{info.resource}"] = ["watchlist"]
        verbs_by_path[f"{watched}{scope}/{info.resource}/{{name}}"] = ["watch"]
    for path, verbs in verbs_by_path.items():
        if verbs:
            paths[path] = _path_item(info, path, verbs, name)
    for subresource, sub in info.subresources.items():
        path = f"{item}/{subresource}"
        verbs = [verb for verb in _SUBRESOURCE_VERBS if verb in sub.verbs]
        schema_name = _schema_of_subresource(info, subresource, sub, name)
        if subresource == "proxy":
            verbs += ["options", "head"]
            paths[f"{path}/{{path}}"] = _path_item(info, f"{path}/{{path}}", verbs, schema_name, subresource)
        if verbs:
            paths[path] = _path_item(info, path, verbs, schema_name, subresource)


def _schema_of_subresource(info: ResourceInfo, subresource: str, sub: Subresource, name: str | None) -> str | None:
    if sub.kind == info.kind:
        return name if subresource != "log" else None
    definition = schema.load().for_kind(sub.group or info.group, sub.version or info.version, sub.kind)
    return definition.name if definition is not None else None


def _path_item(
    info: ResourceInfo, path: str, verbs: Iterable[str], name: str | None, subresource: str = ""
) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    sub = info.subresources.get(subresource) if info.custom is None else None
    kind = {"group": info.group, "kind": info.kind, "version": info.version}
    if sub is not None:
        kind = {"group": sub.group or info.group, "kind": sub.kind, "version": sub.version or info.version}
    connects = subresource in _CONNECTING
    parameters = {verb: _query_parameters(info, subresource, verb) for verb in verbs}
    common = frozenset.intersection(*(frozenset(keys) for keys in parameters.values()))
    for verb, keys in parameters.items():
        method, action, _keys = _ACTIONS[verb]
        operation: dict[str, Any] = {
            "tags": [_tag(info)],
            "description": _description(info, verb, method, subresource),
            "operationId": _operation_id(info, verb, method, subresource, path),
            "responses": _responses(info, verb, subresource, _response_schema(info, verb, name)),
            "x-kubernetes-action": "connect" if connects else action,
            "x-kubernetes-group-version-kind": kind,
        }
        if own := _sorted_parameters(query_parameter(key) for key in keys if key not in common):
            operation["parameters"] = own
        body = None if connects else _request_body(info, verb, name)
        if body is not None:
            operation["requestBody"] = body
        operations[method] = operation
    in_path = [
        _path_parameter(parameter, description)
        for parameter, description in (
            ("name", f"name of the {sub.kind if sub is not None else info.kind}"),
            ("namespace", "object name and auth scope, such as for teams and projects"),
            ("path", "path to the resource"),
        )
        if f"{{{parameter}}}" in path
    ]
    in_query = [query_parameter(key) for key in (*common, *(() if connects else ("pretty",)))]
    operations["parameters"] = _sorted_parameters((*in_path, *in_query))
    return operations


def _query_parameters(info: ResourceInfo, subresource: str, verb: str) -> Iterable[str]:
    """The keys of the query parameters of an operation. Those that all operations of a path have become its own."""
    if subresource == "log":
        return query_parameters_of("PodLogOptions")
    if subresource in _CONNECTING:
        return query_parameters_of(info.subresources[subresource].kind)
    if info.custom is not None and verb in _OF_CUSTOM:
        return _OF_CUSTOM[verb]
    return _ACTIONS[verb][2]


def _path_parameter(name: str, description: str) -> dict[str, Any]:
    shape = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": shape}


def _sorted_parameters(parameters: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(parameters, key=lambda parameter: (parameter["name"], parameter["in"]))


def add_document(paths: dict[str, Any], key: str) -> None:
    """Add the path of a document that is no resource; ``key`` is that of the OpenAPI document."""
    if key in _OPENID:
        _add_openid(paths, key)
    else:
        _add_discovery(paths, key)


def _add_discovery(paths: dict[str, Any], key: str) -> None:
    """Add the path of a discovery document: ``api``, ``apis``, ``apis/apps``, ``apis/apps/v1``, ``version``."""
    first, *names = key.split("/")
    text, kind, suffix = "get available API versions", f"{_META}APIGroupList", "APIVersions"
    words = _group_words(names[0]) if first == "apis" and names else []
    if first == "api":
        words, kind = ["core"], f"{_META}APIVersions"
    tag = _joined(words) or first
    if first == "version":
        text, kind, suffix = "get the version information for this server", _VERSION, "CodeVersion"
    elif first == "apis" and len(names) == 1:
        text, kind, suffix = "get information of a group", f"{_META}APIGroup", "APIGroup"
    elif names:
        text, kind, suffix = "get available resources", f"{_META}APIResourceList", "APIResources"
        words, tag = [*words, names[-1]], f"{tag}_{names[-1]}"
    types = (negotiation.JSON,) if first == "version" else _MEDIA_TYPES
    content = {media_type: _reference(kind) for media_type in sorted(types)}
    operation_id = "get" + "".join(word.capitalize() for word in words) + suffix
    paths[f"/{key}/"] = {"get": _document_operation(tag, text, operation_id, content)}


def _add_openid(paths: dict[str, Any], key: str) -> None:
    """Add the path of a document for verifiers of service account tokens."""
    tag, text, suffix, media_type = _OPENID[key]
    content = {media_type: {"schema": {"type": "string"}}}
    operation_id = f"getServiceAccountIssuerOpenID{suffix}"
    paths[f"/{key}/"] = {"get": _document_operation(tag, text, operation_id, content)}


def _document_operation(tag: str, text: str, operation_id: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tags": [tag],
        "description": text,
        "operationId": operation_id,
        "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
    }


def _request_body(info: ResourceInfo, verb: str, name: str | None) -> dict[str, Any] | None:
    types = ("*/*",) if info.custom is None else _CUSTOM_TYPES
    if verb in ("create", "update"):
        return {"content": {text: _reference(name) for text in types}, "required": True} if name else None
    if verb == "patch":
        # kubectl apply uses strategic merge patch if it is in this list; custom resources do not support it.
        patch_types = _PATCH_TYPES if info.custom is None else _PATCH_TYPES[:-1]
        return {"content": {text: _reference(PATCH) for text in patch_types}, "required": True}
    if verb == "delete" or (verb == "deletecollection" and info.custom is None):
        return {"content": {text: _reference(f"{_META}DeleteOptions") for text in types}}
    return None


def _response_schema(info: ResourceInfo, verb: str, name: str | None) -> str | None:
    if verb in ("watch", "watchlist"):
        return f"{_META}WatchEvent"
    if verb == "list":
        if info.custom is None:
            return _name_of(info.group, info.version, info.list_kind)
        return f"{name}List" if name else None
    if verb == "deletecollection" or (verb == "delete" and not _returns_deleted_object(info)):
        return f"{_META}Status"
    return name


def _returns_deleted_object(info: ResourceInfo) -> bool:
    if info.resource in ("namespaces", "customresourcedefinitions"):
        return False  # upstream's storage of these hides that of the generic registry
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
    types = _MEDIA_TYPES if info.custom is None else _CUSTOM_TYPES
    if verb in ("list", "watch", "watchlist") and info.custom is None:
        types = (*types, *_STREAMS)
    content = {"content": {media_type: _reference(name) for media_type in sorted(types)}} if name else {}
    codes = _RESPONSES.get(verb, (_OK,)) if info.custom is None or verb != "patch" else (_OK,)
    responses = {code: {"description": text, **content} for code, text in codes}
    return {**responses, "401": {"description": "Unauthorized"}}


def _operation_id(info: ResourceInfo, verb: str, method: str, subresource: str, path: str) -> str:
    group = "".join(word.capitalize() for word in _group_words(info.group))
    prefix = group + info.version.capitalize()
    namespaced = "Namespaced" if "{namespace}" in path else ""
    if subresource in _CONNECTING:
        suffix = "WithPath" if path.endswith("/{path}") else ""
        return f"connect{prefix}{method.capitalize()}{namespaced}{info.kind}{subresource.capitalize()}{suffix}"
    collection = "Collection" if verb == "deletecollection" else ""
    suffix = "List" if verb == "watchlist" else ""
    suffix += "ForAllNamespaces" if info.namespaced and not namespaced else ""
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
        case "watch":
            return f"watch changes to an object of kind {kind}. {_DEPRECATED_WATCH}, {_FILTERED}."
        case "watchlist":
            return f"watch individual changes to a list of {kind}. {_DEPRECATED_WATCH}."
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


def _group_words(group: str) -> list[str]:
    return (group.removesuffix(".k8s.io") or "core").split(".")


def _joined(words: list[str]) -> str:
    return "".join([*words[:1], *(word.capitalize() for word in words[1:])])


def _tag(info: ResourceInfo) -> str:
    return f"{_joined(_group_words(info.group))}_{info.version}"
