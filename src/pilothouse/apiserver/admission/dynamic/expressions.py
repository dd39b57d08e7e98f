"""Expressions of policies and webhooks: what they may name, and what they come to.

After k8s.io/apiserver ``pkg/admission/plugin/cel/{compile,condition,composition}.go`` (v0.36). All objects are ``dyn``,
as upstream's are; variables are evaluated when they are used, at most once per write.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pilothouse.apiserver.admission import Admission
from pilothouse.apiserver.admission.dynamic.requests import admission_request, converted
from pilothouse.apiserver.authorization import Attributes
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.identity import Identity
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import ResourceInfo

_VARIABLE = re.compile(r"(?<![.\w])variables\.([A-Za-z_]\w*)")
_STRINGS = re.compile(r"""[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.DOTALL)


class ExpressionError(ValueError):
    """An expression that does not compile, or comes to nothing; the text is upstream's."""


class Scope:
    """What the expressions of one policy or webhook may name."""

    def __init__(
        self, *, params: bool = False, authorizer: bool = True, variables: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self._params, self._authorizer = params, authorizer
        self._variables = variables
        self._environment: Any = None
        self._sources = {one.get("name") or "": one.get("expression") or "" for one in variables or ()}

    @property
    def environment(self) -> Any:
        """Where they are compiled; made when the first one is."""
        if self._environment is None:
            from pilothouse.apiserver.cel.environment import Environment
            from pilothouse.apiserver.cel.schemas import PACKAGE, Types

            names: dict[str, Any] = dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), "dyn")
            if self._params:
                names["params"] = "dyn"
            if self._authorizer:
                names["authorizer"] = "kubernetes.authorization.Authorizer"
                names["authorizer.requestResource"] = "kubernetes.authorization.ResourceCheck"
            types = Types()
            if self._variables is not None:
                names["variables"] = f"{PACKAGE}.Variables"
                types.messages.append(("Variables", dict.fromkeys(self._sources, "dyn")))
            self._environment = Environment(names, types.serialized())
        return self._environment

    def compile(self, source: str, gives: Iterable[str]) -> Any:
        """A program. Raises ``ExpressionError`` in the words of a 422."""
        from pilothouse.apiserver.cel.environment import CompileError

        wanted = tuple(gives)
        # What is only known when it runs (dyn) is looked at then.
        try:
            return self.environment.compile(source, gives=(*wanted, "dyn") if wanted else ())
        except CompileError as error:
            text = str(error)
            if not text.startswith("ERROR: "):
                listed = " ".join(wanted)
                text = f"must evaluate to {listed}" if len(wanted) == 1 else f"must evaluate to one of [{listed}]"
                raise ExpressionError(text) from None
            raise ExpressionError(f"compilation failed: {text}") from None

    def variable_source(self, name: str) -> str | None:
        """The expression of a variable."""
        return self._sources.get(name)


class Condition:
    """One expression of a configuration, compiled once, when it is first needed."""

    def __init__(self, scope: Scope, source: str, gives: Iterable[str] = ("bool",), *, rewritten: str = "") -> None:
        self.scope, self.source = scope, source
        self._text = rewritten or source
        self._gives = tuple(gives)
        self._program: Any = None
        self._problem = ""
        self.uses = tuple(dict.fromkeys(_VARIABLE.findall(_STRINGS.sub("''", source))))

    def evaluate(self, inputs: "Inputs") -> Any:
        """Its value. Raises ``ExpressionError``."""
        from pilothouse.apiserver.cel.environment import EvaluationError

        if self._program is None and not self._problem:
            try:
                self._program = self.scope.compile(self._text, self._gives)
            except ExpressionError as error:
                self._problem = f"compilation error: {error}"
        if self._problem:
            raise ExpressionError(self._problem)
        try:
            return self._program.evaluate(inputs.values(self))
        except EvaluationError as error:
            raise ExpressionError(f"expression '{self.source}' resulted in error: {error}") from None


class Inputs:
    """What expressions see of one write; made once for all that are about it in one version."""

    def __init__(self, core: Core, write: Admission, info: ResourceInfo, params: Object | None = None) -> None:
        from pilothouse.apiserver.cel.authorizers import AUTHORIZER, asking

        self._asking, self._ask = asking, _asker(core, write.identity)
        self._values: dict[str, Any] = {
            "object": converted(core, write, write.obj, info),
            "oldObject": converted(core, write, write.old, info),
            "request": admission_request(write, info, ""),
            "params": params,
            "namespaceObject": _namespace(core, write),
            "authorizer": AUTHORIZER,
            "authorizer.requestResource": _request_resource(write),
        }
        self._conditions: dict[str, Condition] = {}
        self._variables: dict[str, Any] = {}
        self._failed: dict[str, str] = {}

    @property
    def object(self) -> Any:
        """The object in the version that matched."""
        return self._values["object"]

    def values(self, condition: Condition) -> dict[str, Any]:
        """The variables for one expression. Raises ``ExpressionError`` when one that it uses cannot be had."""
        for name in condition.uses:
            self._settle(condition.scope, name)
        self._asking.set(self._ask)
        return {**self._values, "variables": self._variables}

    def _settle(self, scope: Scope, name: str) -> None:
        if name in self._failed:
            raise ExpressionError(self._failed[name])
        source = scope.variable_source(name)
        if name in self._variables or source is None:
            return
        self._failed[name] = f'composited variable "{name}" fails to evaluate: it is used by itself'
        try:
            value = Condition(scope, source, ()).evaluate(self)
        except ExpressionError as error:
            self._failed[name] = f'composited variable "{name}" fails to evaluate: {error}'
            raise ExpressionError(self._failed[name]) from None
        del self._failed[name]
        self._variables[name] = value


def _request_resource(write: Admission) -> Any:
    from pilothouse.apiserver.cel.tagged import tagged

    asked = {"group": write.info.group, "resource": write.info.resource, "namespace": write.namespace}
    asked |= {"name": write.name, "subresource": write.subresource}
    return tagged("authorization.ResourceCheck", "", **{key: value for key, value in asked.items() if value})


def _namespace(core: Core, write: Admission) -> Object | None:
    if not write.namespace or (write.info.resource == "namespaces" and not write.info.group):
        return None
    record = core.namespace(write.namespace)
    return decode(record.value) if record is not None else None


def _asker(core: Core, identity: Identity) -> Callable[[dict[str, str]], tuple[bool, str, str]]:
    def ask(question: dict[str, str]) -> tuple[bool, str, str]:
        user = identity
        if "user" in question:
            name = question["user"]
            namespace = name.split(":")[2]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            user = Identity(name, groups)
        fields = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
        asked = Attributes(**{"verb": "", **{key: question[key] for key in fields if key in question}})
        decision = core.authorizer.decide(user, asked)
        return decision.allowed, decision.reason, decision.error

    return ask


class MatchConditions:
    """``matchConditions``: all must be true. One that is false decides, whatever others fail."""

    def __init__(self, scope: Scope, given: Sequence[Mapping[str, Any]]) -> None:
        self._conditions = [Condition(scope, one.get("expression") or "") for one in given]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    def match(self, inputs: Inputs) -> bool:
        """Whether all hold. Raises ``ExpressionError`` when that cannot be said."""
        failed: list[str] = []
        for condition in self._conditions:
            try:
                if condition.evaluate(inputs) is not True:
                    return False
            except ExpressionError as error:
                failed.append(str(error))
        if failed:
            raise ExpressionError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
        return True
