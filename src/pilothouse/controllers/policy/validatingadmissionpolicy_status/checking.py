"""Type-checks expressions. The library is in docs/design/cel.md; here are the variables of a policy's expressions.

After the apiserver library's ``admission/plugin/policy/validating/typechecking.go`` and ``plugin/cel/compile.go``
(v1.36).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pilothouse.api.admissionregistration import Variable
from pilothouse.cel.limits import GetEvaluator, no_evaluator
from pilothouse.controllers.policy.validatingadmissionpolicy_status.types import ANYTHING, Schema
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.cel import environment, schemas

_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_MAP: Schema = {"type": "object", "additionalProperties": _TEXT}
_NUMBER: Schema = {"type": "integer"}
_TIME: Schema = {"type": "string", "format": "date-time"}


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
    options=ANYTHING,
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
    """Checks the expressions of one policy against one type. ``params`` is None if the policy has no ``paramKind``:
    then there is no variable ``params``. For an unknown type it is ``ANYTHING`` (v1.36 ``createVariableOpts``).

    Large expressions and types are compiled by the process of ``get_evaluator``; after each of the others control
    returns to the loop. Every method raises ``Busy``.
    """

    def __init__(self, schema: Schema, params: Schema | None, get_evaluator: GetEvaluator = no_evaluator) -> None:
        self._schemas = {"object": schema, "oldObject": schema, "request": REQUEST, "namespaceObject": NAMESPACE}
        if params is not None:
            self._schemas["params"] = params
        self._get_evaluator = get_evaluator
        self._variables: dict[str, str] = {}
        self._environment = self._declaration()

    async def declare(self, variables: Sequence[Variable]) -> None:
        """Declare variables for the expressions that follow. A variable may use those before it."""
        for variable in variables:
            # An error in a variable is not reported: its type is dyn, and expressions that use it are not type-checked.
            self._variables[variable.name] = await self._kind(variable.expression)
            self._environment = self._declaration()

    async def error_in(self, expression: str) -> str:
        """The compiler's error, "" if there is none."""
        try:
            await self._check(expression)
        except environment.CompileError as error:
            return str(error)
        return ""

    async def _kind(self, expression: str) -> str:
        try:
            kind = await self._check(expression)
        except environment.CompileError:
            return "dyn"
        return kind if kind in _SCALARS else "dyn"

    async def _check(self, expression: str) -> str:
        await asyncio.sleep(0)
        kind: str = await self._environment.check_in_background(expression, self._get_evaluator)
        return kind

    def _declaration(self) -> Any:
        types = schemas.Types()
        names: dict[str, Any] = {}
        for name, schema in self._schemas.items():
            if name == "oldObject":
                names[name] = names["object"]
                continue
            is_whole = name in ("object", "params") and schema is not ANYTHING
            names[name] = types.of(schema, root=is_whole and _lacks_metadata(schema)) or "dyn"
        names["authorizer"] = "kubernetes.authorization.Authorizer"
        names["variables"] = f"{schemas.PACKAGE}.Variables"
        types.messages.append(("Variables", dict(self._variables)))
        return environment.Environment(names, types.serialized())


def _lacks_metadata(schema: Schema) -> bool:
    """Whether the schema of an object lacks fields that every object has."""
    properties = schema.get("properties") or {}
    meta = (properties.get("metadata") or {}).get("properties") or {}
    return not ({"kind", "apiVersion"} <= set(properties) and {"name", "generateName"} <= set(meta))
