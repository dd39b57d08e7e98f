"""Expressions against types. The library is CEL's (docs/design/cel.md); here is what a policy's expressions may name.

After the apiserver library's ``admission/plugin/policy/validating/typechecking.go`` and ``plugin/cel/compile.go``
(v1.36).
"""

from collections.abc import Sequence
from typing import Any

from pilothouse.api.admissionregistration import Variable
from pilothouse.controllers.policy.validatingadmissionpolicy_status.types import Schema

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_MAP: Schema = {"type": "object", "additionalProperties": _TEXT}
_NUMBER: Schema = {"type": "integer"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_ANYTHING: Schema = {"x-kubernetes-int-or-string": True}


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields}


_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(
        username=_TEXT, uid=_TEXT, groups=_TEXTS, extra={"type": "object", "additionalProperties": _TEXTS}
    ),
    dryRun={"type": "boolean"},
    options=_ANYTHING,
)
NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_MAP,
        annotations=_MAP,
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds=_NUMBER,
        deletionTimestamp=_TIME,
        generation=_NUMBER,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(
        conditions={
            "type": "array",
            "items": _object(status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT),
        },
        phase=_TEXT,
    ),
)
_SCALARS = {"bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"}


class Checker:
    """Checks the expressions of one policy against one type. ``params`` is None where nothing is known of them: then
    they may not be named, as upstream has it."""

    def __init__(self, schema: Schema, params: Schema | None, variables: Sequence[Variable]) -> None:
        self._schemas = {"object": schema, "oldObject": schema, "request": REQUEST, "namespaceObject": NAMESPACE}
        if params is not None:
            self._schemas["params"] = params
        self._variables: dict[str, str] = {}
        for variable in variables:
            # A variable may name those before it. What is wrong with one is not told: those who use it go unchecked.
            self._variables[variable.name] = self._kind(variable.expression)
        self._environment = self._made()

    def problem(self, expression: str) -> str:
        """What the compiler says of it, "" if nothing."""
        from pilothouse.apiserver.cel.environment import CompileError

        try:
            self._environment.check(expression)
        except CompileError as error:
            return str(error)
        return ""

    def _kind(self, expression: str) -> str:
        from pilothouse.apiserver.cel.environment import CompileError

        try:
            kind: str = self._made().check(expression)
        except CompileError:
            return "dyn"
        return kind if kind in _SCALARS else "dyn"

    def _made(self) -> Any:
        from pilothouse.apiserver.cel.environment import Environment
        from pilothouse.apiserver.cel.schemas import PACKAGE, Types

        types = Types()
        names: dict[str, Any] = {}
        for name, schema in self._schemas.items():
            if name == "oldObject":
                names[name] = names["object"]
                continue
            names[name] = types.of(schema, root=_lacks_metadata(schema) and name in ("object", "params")) or "dyn"
        names["authorizer"] = "kubernetes.authorization.Authorizer"
        names["variables"] = f"{PACKAGE}.Variables"
        types.messages.append(("Variables", dict(self._variables)))
        return Environment(names, types.serialized())


def _lacks_metadata(schema: Schema) -> bool:
    """Whether a whole object's schema does not say all of what every object has."""
    properties = schema.get("properties") or {}
    meta = (properties.get("metadata") or {}).get("properties") or {}
    return not ({"kind", "apiVersion"} <= set(properties) and {"name", "generateName"} <= set(meta))
