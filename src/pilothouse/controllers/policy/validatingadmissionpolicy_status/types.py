"""The schemas of ``/openapi/v3``, with every reference resolved. After the apiserver library's ``cel/openapi/resolver``
(v1.36)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.client.errors import NotFound
from pilothouse.controllers.policy.validatingadmissionpolicy_status.decide import TypeName
from pilothouse.runtime import ControllerContext

Schema = Mapping[str, Any]

_KINDS = "x-kubernetes-group-version-kind"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_REFERENCE = "#/components/schemas/"
ANYTHING: Schema = {_INT_OR_STRING: True}
"""The schema of an unknown type."""


class _Document(msgspec.Struct, frozen=True):
    components: dict[str, dict[str, Any]] = {}


class Schemas:
    """The schemas that one sync uses. Each OpenAPI document is fetched once, when it is first needed."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._documents: dict[str, Mapping[str, Schema]] = {}

    async def of(self, name: TypeName) -> Schema | None:
        """The schema of a type; None if the API server has none."""
        path = f"/openapi/v3/apis/{name.group}/{name.version}" if name.group else f"/openapi/v3/api/{name.version}"
        if path not in self._documents:
            try:
                response = await self._client.request("GET", path, headers={"accept": "application/json"})
            except NotFound:
                self._documents[path] = {}
            else:
                document = msgspec.json.decode(response.body, type=_Document)
                self._documents[path] = document.components.get("schemas") or {}
        schemas = self._documents[path]
        for key, schema in schemas.items():
            kinds = [TypeName(kind["group"], kind["version"], kind["kind"]) for kind in schema.get(_KINDS) or ()]
            if kinds == [name]:
                return filled(schemas, schema, (key,))
        return None


def filled(schemas: Mapping[str, Schema], schema: Schema, ancestors: tuple[str, ...] = ()) -> Schema:
    """The schema with all references resolved. A recursive one ends in an object without properties."""
    key = _referred(schema)
    if key:
        if key in ancestors:
            return {"type": "object"}
        return filled(schemas, schemas.get(key) or ANYTHING, (*ancestors, key))
    if schema.get("format") == "int-or-string" or ("type" not in schema and ("oneOf" in schema or "anyOf" in schema)):
        return ANYTHING  # a quantity, or a port by number or name
    copy = dict(schema)
    if schema.get("properties"):
        copy["properties"] = {name: filled(schemas, below, ancestors) for name, below in schema["properties"].items()}
    for field in ("items", "additionalProperties"):
        if isinstance(schema.get(field), dict):
            copy[field] = filled(schemas, schema[field], ancestors)
    return copy


def _referred(schema: Schema) -> str:
    reference = schema.get("$ref") or ""
    for item in schema.get("allOf") or ():
        reference = reference or item.get("$ref") or ""  # wrapped, so that it can have a description of its own
    return str(reference).removeprefix(_REFERENCE)
