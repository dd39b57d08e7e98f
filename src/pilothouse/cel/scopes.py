"""The variables of admission expressions, and their compilation.

After k8s.io/apiserver ``pkg/admission/plugin/cel/compile.go`` (v0.36). All objects are ``dyn``, as upstream; request
and namespace are not. Used by the validation of policies and by admission.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pilothouse.cel.limits import GetEvaluator
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.cel import environment, schemas


class ExpressionError(ValueError):
    """An expression does not compile or failed to evaluate; the message is upstream's."""


_STRINGS = ("list", "string")
_KIND = {"group": "string", "version": "string", "kind": "string"}
_RESOURCE = {"group": "string", "version": "string", "resource": "string"}
_MESSAGES: Mapping[str, dict[str, Any]] = {
    "GroupVersionKind": _KIND,
    "GroupVersionResource": _RESOURCE,
    "UserInfo": {"username": "string", "uid": "string", "groups": _STRINGS, "extra": ("map", _STRINGS)},
    "AdmissionRequest": {
        "kind": "custom.GroupVersionKind",
        "resource": "custom.GroupVersionResource",
        "subResource": "string",
        "requestKind": "custom.GroupVersionKind",
        "requestResource": "custom.GroupVersionResource",
        "requestSubResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
        "userInfo": "custom.UserInfo",
        "dryRun": "bool",
        "options": "dyn",
    },
    "NamespaceMetadata": {
        **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), "string"),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), "timestamp"),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), "int"),
        "labels": ("map", "string"),
        "annotations": ("map", "string"),
        "finalizers": _STRINGS,
    },
    "NamespaceSpec": {"finalizers": _STRINGS},
    "NamespaceCondition": {
        **dict.fromkeys(("status", "type", "message", "reason"), "string"),
        "lastTransitionTime": "timestamp",
    },
    "NamespaceStatus": {"conditions": ("list", "custom.NamespaceCondition"), "phase": "string"},
    "Namespace": {
        "metadata": "custom.NamespaceMetadata",
        "spec": "custom.NamespaceSpec",
        "status": "custom.NamespaceStatus",
    },
}
"""The types of ``request`` and ``namespaceObject`` (``BuildRequestType``, ``BuildNamespaceType``)."""


class Scope:
    """The variables of the expressions of one policy or webhook. ``variable_types`` are the types of those in
    ``variables`` that are known; the others are ``dyn``.

    An exact scope only allows expressions of exactly the desired type, as upstream, which refuses others when a policy
    is written. A stored policy of another type is evaluated anyway, and the type of its result is checked.
    """

    def __init__(
        self,
        *,
        params: bool = False,
        authorizer: bool = True,
        variables: Sequence[Mapping[str, Any]] | None = None,
        variable_types: Mapping[str, Any] | None = None,
        exact: bool = False,
    ) -> None:
        self._params, self._authorizer, self._exact = params, authorizer, exact
        self._variables, self._variable_types = variables, variable_types or {}
        self._environment: Any = None
        self.sources = {one.get("name") or "": one.get("expression") or "" for one in variables or ()}
        self.compiling = asyncio.Lock()
        """The first user of an expression compiles it while others wait."""

    @property
    def environment(self) -> Any:
        """The environment, created with the first call."""
        if self._environment is None:
            names: dict[str, Any] = dict.fromkeys(("object", "oldObject"), "dyn")
            names |= {
                "request": f"{schemas.PACKAGE}.AdmissionRequest",
                "namespaceObject": f"{schemas.PACKAGE}.Namespace",
            }
            if self._params:
                names["params"] = "dyn"
            if self._authorizer:
                names["authorizer"] = "kubernetes.authorization.Authorizer"
                names["authorizer.requestResource"] = "kubernetes.authorization.ResourceCheck"
            types = schemas.Types()
            types.messages += _MESSAGES.items()
            if self._variables is not None:
                names["variables"] = f"{schemas.PACKAGE}.Variables"
                types.messages.append(
                    ("Variables", {name: self._variable_types.get(name, "dyn") for name in self.sources})
                )
            self._environment = environment.Environment(names, types.serialized())
        return self._environment

    def compile(self, source: str, return_types: Iterable[str], *, uniform: bool = True) -> Any:
        """Compile. Raises ``ExpressionError`` with the message of the 422 response."""
        desired = tuple(return_types)
        with _in_words_of_a_422(desired):
            return self.environment.compile(source, return_types=self._allowed(desired), uniform=uniform)

    async def compile_in_background(
        self, source: str, return_types: Iterable[str], evaluator: GetEvaluator, *, uniform: bool = True
    ) -> Any:
        """Compile on the event loop; a large expression is compiled in another process. Raises ``ExpressionError`` and
        ``Busy``."""
        desired = tuple(return_types)
        with _in_words_of_a_422(desired):
            allowed = self._allowed(desired)
            return await self.environment.compile_in_background(
                source, evaluator, return_types=allowed, uniform=uniform
            )

    def _allowed(self, desired: tuple[str, ...]) -> tuple[str, ...]:
        return (*desired, "dyn") if desired and not self._exact else desired


_DECLARABLE = frozenset(("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"))


def declared_type(output: Any) -> Any:
    """The type with which a variable is declared whose expression has the type ``output``
    (``convertCelTypeToDeclType``)."""
    if output.kind == "list" or (output.kind == "map" and output.of[0].kind == "string"):
        return output.kind, declared_type(output.of[-1])
    return output.kind if output.kind in _DECLARABLE else "dyn"


@contextmanager
def _in_words_of_a_422(desired: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except environment.CompileError as error:
        text = str(error)
        if not text.startswith("ERROR: "):
            expected = desired[0] if len(desired) == 1 else f"one of [{' '.join(desired)}]"
            text = f"must evaluate to {expected} but got {text}"
            raise ExpressionError(text) from None
        raise ExpressionError(f"compilation failed: {text}") from None
