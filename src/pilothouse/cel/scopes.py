"""What the expressions of admission may name, and whether they compile.

After k8s.io/apiserver ``pkg/admission/plugin/cel/compile.go`` (v0.36). All objects are ``dyn``, as upstream's are.
Validation asks before one is stored, and what evaluates them afterwards.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pilothouse.cel.limits import Hire
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.cel import environment, schemas


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
        self.sources = {one.get("name") or "": one.get("expression") or "" for one in variables or ()}
        self.compiling = asyncio.Lock()
        """The first user of an expression compiles it, and the others wait."""

    @property
    def environment(self) -> Any:
        """Where they are compiled; made when the first one is."""
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
        """A program. Raises ``ExpressionError`` in the words of a 422."""
        desired = tuple(gives)
        with _in_words_of_a_422(desired):
            return self.environment.compile(source, gives=_or_dyn(desired))

    async def compile_in_background(self, source: str, gives: Iterable[str], evaluator: Hire) -> Any:
        """The same for the loop, which goes on while another process compiles a large one. Raises ``Busy``, too."""
        desired = tuple(gives)
        with _in_words_of_a_422(desired):
            return await self.environment.compile_in_background(source, evaluator, gives=_or_dyn(desired))


def _or_dyn(desired: tuple[str, ...]) -> tuple[str, ...]:
    """What is only known when it runs is checked then."""
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
