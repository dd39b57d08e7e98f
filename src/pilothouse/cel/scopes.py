"""The variables of admission expressions, and their compilation.

After k8s.io/apiserver ``pkg/admission/plugin/cel/compile.go`` (v0.36). All objects are ``dyn``, as upstream. Used by
the validation of policies and by admission.
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


class Scope:
    """The variables of the expressions of one policy or webhook."""

    def __init__(
        self, *, params: bool = False, authorizer: bool = True, variables: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self._params, self._authorizer = params, authorizer
        self._variables = variables
        self._environment: Any = None
        self.sources = {one.get("name") or "": one.get("expression") or "" for one in variables or ()}
        self.compiling = asyncio.Lock()
        """The first user of an expression compiles it while others wait."""

    @property
    def environment(self) -> Any:
        """The environment, created with the first call."""
        if self._environment is None:
            names: dict[str, Any] = dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), "dyn")
            if self._params:
                names["params"] = "dyn"
            if self._authorizer:
                names["authorizer"] = "kubernetes.authorization.Authorizer"
                names["authorizer.requestResource"] = "kubernetes.authorization.ResourceCheck"
            types = schemas.Types()
            if self._variables is not None:
                names["variables"] = f"{schemas.PACKAGE}.Variables"
                types.messages.append(("Variables", dict.fromkeys(self.sources, "dyn")))
            self._environment = environment.Environment(names, types.serialized())
        return self._environment

    def compile(self, source: str, gives: Iterable[str]) -> Any:
        """Compile. Raises ``ExpressionError`` with the message of the 422 response."""
        desired = tuple(gives)
        with _in_words_of_a_422(desired):
            return self.environment.compile(source, gives=_or_dyn(desired))

    async def compile_in_background(self, source: str, gives: Iterable[str], evaluator: GetEvaluator) -> Any:
        """Compile on the event loop; a large expression is compiled in another process. Raises ``ExpressionError`` and
        ``Busy``."""
        desired = tuple(gives)
        with _in_words_of_a_422(desired):
            return await self.environment.compile_in_background(source, evaluator, gives=_or_dyn(desired))


def _or_dyn(desired: tuple[str, ...]) -> tuple[str, ...]:
    """Also allow ``dyn``, whose type is checked at run time."""
    return (*desired, "dyn") if desired else ()


@contextmanager
def _in_words_of_a_422(desired: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except environment.CompileError as error:
        text = str(error)
        if not text.startswith("ERROR: "):
            listed = " ".join(desired)
            text = f"must evaluate to {listed}" if len(desired) == 1 else f"must evaluate to one of [{listed}]"
            raise ExpressionError(text) from None
        raise ExpressionError(f"compilation failed: {text}") from None
