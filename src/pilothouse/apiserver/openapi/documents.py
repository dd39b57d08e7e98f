"""``/openapi/v3`` and ``/openapi/v2``.

A document is created when it is first requested and cached, compressed, until the table changes. Its hash is computed
from its inputs, so that the index is cheap. Both versions are served as JSON or protobuf (``protobuf``); kubectl
requests v2, in protobuf, for what v3 does not have, as the kind ``List``.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse import KUBERNETES_VERSION, __version__
from pilothouse.api import schema
from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.openapi.custom_resources import add_custom, schema_inputs
from pilothouse.apiserver.openapi.operations import ROOTS, add_document, add_paths
from pilothouse.apiserver.openapi.protobuf import encode as encode_protobuf
from pilothouse.apiserver.openapi.schemas import V2, V3, SchemaCollector, is_described
from pilothouse.apiserver.openapi.v2 import SharedParameters, path_item_as_v2
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable
from pilothouse.apiserver.serializers import negotiation

_encode = msgspec.json.Encoder().encode
_PLAIN = {"cache-control": "no-cache, private"}
_INFO = {"title": "Kubernetes", "version": ".".join(KUBERNETES_VERSION.removeprefix("v").split(".")[:2])}
_CUSTOM_INFO = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_TOKEN = {"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header"}


def document_key(group: str, version: str) -> str:
    """The key of a group version in the index: ``api/v1``, ``apis/apps/v1``."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


class OpenApi:
    """Serves ``/openapi/...`` for one table."""

    def __init__(self, table: ResourceTable) -> None:
        self._table = table
        self._generation = -1
        self._by_key: dict[str, list[ResourceInfo]] = {}
        self._hashes: dict[str, str] = {}
        self._documents: dict[str, bytes] = {}
        self._protobuf: dict[str, bytes] = {}
        self._v2_documents = -1
        self._v2_json = b""
        self._v2_protobuf = b""
        self._second_etag = ""

    def handle(self, request: Request, path: str, query: Mapping[str, list[str]]) -> Response | None:
        """The response for a path, or None if the path is not part of OpenAPI."""
        path = path.rstrip("/")
        if path not in {"/openapi/v2", "/openapi/v3"} and not path.startswith("/openapi/v3/"):
            return None
        if path == "/openapi/v2":
            return self._serve_v2(request)
        self._refresh()
        if path == "/openapi/v3":
            paths = {key: {"serverRelativeURL": self._url(key)} for key in sorted(self._by_key)}
            headers = {**_PLAIN, "content-type": "text/plain; charset=utf-8"}
            return Response(200, headers, _encode({"paths": paths}))
        return self._serve_v3(request, path.removeprefix("/openapi/v3/"), (query.get("hash") or [""])[0])

    def _refresh(self) -> None:
        if self._generation == self._table.generation:
            return
        self._generation = self._table.generation
        by_key: dict[str, list[ResourceInfo]] = {
            key: [] for key in _document_keys(info for info in self._table if info.custom is None)
        }
        for info in self._table:
            by_key.setdefault(document_key(info.group, info.version), []).append(info)
        self._by_key = by_key
        hashes = {key: _hash(key, infos) for key, infos in by_key.items()}
        for cache in (self._documents, self._protobuf):
            for key in [key for key in cache if hashes.get(key) != self._hashes.get(key)]:
                del cache[key]
        self._hashes = hashes

    def _url(self, key: str) -> str:
        return f"/openapi/v3/{key}?hash={self._hashes[key]}"

    def _serve_v3(self, request: Request, key: str, requested_hash: str) -> Response:
        infos = self._by_key.get(key)
        if infos is None:
            return Response(404, _PLAIN)
        media_type = _media_type(request, _PROTOBUF_V3)
        if media_type is None:
            return Response(406, {**_PLAIN, "vary": "Accept"})
        if requested_hash and requested_hash != self._hashes[key]:
            return Response(301, {**_PLAIN, "location": self._url(key)})
        headers = {"content-type": media_type, "vary": "Accept", "etag": f'"{self._hashes[key]}"'}
        if _has_etag(request, headers["etag"]):
            return Response(304, headers)
        if requested_hash:
            headers["cache-control"] = "public, immutable"
            headers["expires"] = "Thu, 31 Dec 2037 23:55:55 GMT"
        else:
            headers["cache-control"] = "no-cache, private"
        return Response(200, headers, self._v3_body(key, infos, media_type))

    def _v3_body(self, key: str, infos: list[ResourceInfo], media_type: str) -> bytes:
        cache, encode = (self._documents, _encode) if media_type == negotiation.JSON else (self._protobuf, _encode_v3)
        compressed = cache.get(key)
        if compressed is not None:
            return zlib.decompress(compressed)
        body = encode(document(key, infos))
        cache[key] = zlib.compress(body, 1)
        return body

    def _serve_v2(self, request: Request) -> Response:
        media_type = _media_type(request, _PROTOBUF_V2)
        if media_type is None:
            return Response(406, {**_PLAIN, "vary": "Accept"})
        self._create_v2()
        headers = {"etag": self._second_etag, "vary": "Accept", "cache-control": "no-cache, private"}
        if _has_etag(request, self._second_etag):
            return Response(304, headers)
        compressed = self._v2_json if media_type == negotiation.JSON else self._v2_protobuf
        return Response(200, {**headers, "content-type": media_type}, zlib.decompress(compressed))

    def _create_v2(self) -> None:
        if self._v2_documents == self._table.generation:
            return
        document = v2_document(self._table)
        encoded = _encode(document)
        self._second_etag = f'"{hashlib.sha512(encoded).hexdigest().upper()}"'
        self._v2_json = zlib.compress(encoded, 1)
        self._v2_protobuf = zlib.compress(encode_protobuf("v2.Document", document), 1)
        self._v2_documents = self._table.generation


def _has_etag(request: Request, etag: str) -> bool:
    """Whether the client has the document, by RFC 9110, 13.1.2: weak comparison."""
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return etag in tags or tags == ["*"]


_PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_PROTOBUF_V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


def _media_type(request: Request, protobuf: str) -> str | None:
    """The media type of the response, the first supported one that is accepted, or None. Both spellings of the protobuf
    types are supported: with ``@`` before the version and, since that is no valid media type, with a dot."""
    for clause in negotiation.parse_accept(request.headers.get("accept", "") or "*/*"):
        if clause.media.replace("@", ".") == protobuf:
            return protobuf
        if clause.media in (negotiation.JSON, "*/*", "application/*"):
            return negotiation.JSON
    return None


def _encode_v3(document: Mapping[str, Any]) -> bytes:
    return encode_protobuf("v3.Document", document)


def _hash(key: str, infos: Iterable[ResourceInfo]) -> str:
    inputs = [__version__, KUBERNETES_VERSION, key, str(is_described())]
    for info in infos:
        if info.custom is not None:
            inputs += [info.resource, info.kind, repr(sorted(info.subresources)), *schema_inputs(info)]
    return hashlib.sha512("\n".join(inputs).encode()).hexdigest().upper()


def document(key: str, infos: Iterable[ResourceInfo]) -> dict[str, Any]:
    """The OpenAPI v3 document of one key of the index; ``infos`` are the resources of a group version."""
    infos = list(infos)
    custom = any(info.custom is not None for info in infos)
    own = (infos[0].group, infos[0].version) if infos and not custom else None
    collector = SchemaCollector(V3, own)
    paths: dict[str, Any] = {}
    for info in infos:
        add_paths(paths, info, _definition_name(info) if info.custom is None else add_custom(collector, info, V3))
    if not custom:
        add_document(paths, key)
    _add_referenced(collector, paths)
    components: dict[str, Any] = {"schemas": dict(sorted(collector.schemas.items()))} if collector.schemas else {}
    if not custom:
        components["securitySchemes"] = {"BearerToken": _TOKEN}
    return {
        "openapi": "3.0.0",
        "info": _CUSTOM_INFO if custom else _INFO,
        "paths": dict(sorted(paths.items())),
        "components": components,
    }


def v2_document(table: ResourceTable) -> dict[str, Any]:
    """The OpenAPI v2 document of everything that is served."""
    collector = SchemaCollector(V2)
    paths: dict[str, Any] = {}
    built_in = [info for info in table if info.custom is None]
    for key in _document_keys(built_in):
        add_document(paths, key)
    for info in table:
        definition_name = _definition_name(info) if info.custom is None else add_custom(collector, info, V2)
        add_paths(paths, info, definition_name)
    _add_referenced(collector, paths)
    shared = SharedParameters()
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": {path: path_item_as_v2(paths[path], shared) for path in sorted(paths)},
        "definitions": dict(sorted(collector.schemas.items())),
        "parameters": dict(sorted(shared.by_name.items())),
        "securityDefinitions": {"BearerToken": _TOKEN},
        "security": [{"BearerToken": []}],
    }


def _document_keys(infos: Iterable[ResourceInfo]) -> list[str]:
    """The keys of the documents that the built-in resources need: their group versions, their groups, the roots."""
    infos = list(infos)
    groups = {f"apis/{info.group}" for info in infos if info.group}
    return sorted({*ROOTS, *groups, *(document_key(info.group, info.version) for info in infos)})


def _add_referenced(collector: SchemaCollector, paths: Mapping[str, Any]) -> None:
    """Add the definitions that the operations refer to."""
    contents: list[Mapping[str, Any]] = []
    for item in paths.values():
        for method, operation in item.items():
            if method != "parameters":
                contents += [part.get("content", {}) for part in operation["responses"].values()]
                contents.append(operation.get("requestBody", {}).get("content", {}))
    references = {media["schema"].get("$ref", "") for content in contents for media in content.values()}
    for name in sorted(reference.removeprefix(V3) for reference in references if reference):
        collector.add_named(name)


def _definition_name(info: ResourceInfo) -> str | None:
    definition = schema.load().for_kind(info.group, info.version, info.kind)
    return definition.name if definition is not None else None
