"""Expressions compiled against typed variables, and evaluated.

The library refuses three things that Kubernetes needs: values of types of its own, optional variables, and times
inside of a value's tree. So an expression is *checked* in an environment where everything has the type that Kubernetes
declares, and *run* in one environment for all where types of Kubernetes are tagged maps, and objects are maps: a
checked expression names functions and fields, not where they are kept.

What an expression may cost is estimated as upstream does (``costs``). What an evaluation does cost nobody counts: the
library gives up after 10,000 iterations of macros, and the error is that of an exceeded cost limit.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pilothouse.apiserver.cel.checked import read
from pilothouse.apiserver.cel.costs import Sizes, cost_of
from pilothouse.apiserver.cel.formats import with_formats
from pilothouse.apiserver.cel.functions import FUNCTIONS, TAG, Function, run_overloads

Kind = str | tuple[str, "Kind"]
"""A type: a name (``int``, ``dyn``, ``kubernetes.Quantity``, a message of the environment) or ``("list", Kind)`` or
``("map", Kind)``, whose keys are strings."""

_CONFIG = """
name: kubernetes
extensions:
  - {name: strings, version: 2}
  - {name: optional}
  - {name: sets}
  - {name: two-var-comprehensions}
  - {name: bindings}
"""
COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"


class CompileError(ValueError):
    """An expression that is none, or that is of the wrong type. The message is the compiler's, many lines perhaps."""


class EvaluationError(ValueError):
    """An expression that came to no value: a missing key, an overflow, a type that could not be known before."""


class Environment:
    """The variables that expressions may name, with their types.

    ``messages`` is a serialized ``FileDescriptorProto`` with the object types among them (``schemas`` makes it).
    ``optional`` names the variables that may be optional in an expression.
    """

    def __init__(self, variables: Mapping[str, Kind], messages: bytes | None = None, *, optional: str = "") -> None:
        self._variables = dict(variables)
        if optional:
            self._variables |= {f"{optional}__given": "bool", f"{optional}__value": self._variables[optional]}
        self._messages = messages
        self._checker: Any = None

    def compile(self, source: str, *, gives: Iterable[str] = (), maybe: str = "") -> "Program":
        """Check an expression; ``gives`` are the types that it may be of, none for any.

        ``maybe`` names a variable that is optional in the expression: it is bound to ``optional.of`` the value that the
        evaluation gets for it, or to ``optional.none()`` when it gets none. Raises ``CompileError``.
        """
        text = with_formats(source)
        if maybe:
            # On a line of its own, so that the columns in messages stay those of the source.
            text = f"cel.bind({maybe}, {maybe}__given ? optional.of({maybe}__value) : optional.none(),\n{text}\n)"
        checked = self._checked(text, 1 if maybe else 0)
        found = checked.return_type().name().lower()
        wanted = tuple(gives)
        if wanted and found not in wanted:
            raise CompileError(found)
        serialized = checked.serialize()
        return Program(source, _runner().deserialize(serialized), maybe, serialized)

    def check(self, source: str) -> str:
        """The name of an expression's type, in small letters; nothing is made that could be evaluated. Raises
        ``CompileError``."""
        name: str = self._checked(with_formats(source), 0).return_type().name()
        return name.lower()

    def _checked(self, text: str, lines_before: int) -> Any:
        if self._checker is None:
            self._checker = _checker(self._variables, self._messages)
        try:
            return self._checker.compile(text)
        except RuntimeError as error:
            raise CompileError(_compiler_words(str(error), lines_before)) from None


class Program:
    """A compiled expression."""

    def __init__(self, source: str, compiled: Any, maybe: str, checked: bytes = b"") -> None:
        self.source = source
        self._compiled = compiled
        self._maybe = maybe
        self._checked = checked

    def cost(self, sizes: Sizes) -> int:
        """The most that an evaluation may cost, in upstream's units, before anything is known but the sizes."""
        checked = read(self._checked)
        # The optional variable is bound around the expression (``compile``), which upstream's is not.
        return cost_of(checked, sizes, checked.root.parts[3] if self._maybe else None)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value of the expression. Raises ``EvaluationError``."""
        if self._maybe:
            given = self._maybe in values
            values = {
                **values,
                f"{self._maybe}__given": given,
                f"{self._maybe}__value": values[self._maybe] if given else 0,
            }
        try:
            result = self._compiled.eval(data=values)
        except RuntimeError as error:
            raise EvaluationError(_runtime_words(str(error))) from None
        kind = result.type().name()
        if kind == "NULL":
            return None
        if kind == "ERROR":
            raise EvaluationError(_runtime_words(str(result.plain_value())))
        try:
            value = result.plain_value()
        except RuntimeError as error:
            raise EvaluationError(f"a value of type {kind.lower()} is of no use here: {error}") from None
        return hold_nulls(value)


def hold_nulls(value: Any) -> Any:
    """The value, with a reference added for each null in it.

    The library hands out None without counting the reference (0.1.3). None cannot die since Python 3.12; before, it
    would after some thousand nulls, and the interpreter with it.
    """
    if sys.version_info < (3, 12):
        import ctypes

        for _ in range(_nulls(value)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(None))
    return value


def _nulls(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_nulls(member) for member in value.values())
    if isinstance(value, list):
        return sum(_nulls(member) for member in value)
    return 1 if value is None else 0


def _type(kind: Kind) -> Any:
    from cel_expr_python import cel

    if isinstance(kind, tuple):
        inner = _type(kind[1])
        return cel.Type.List(inner) if kind[0] == "list" else cel.Type.Map(cel.Type.STRING, inner)
    known = getattr(cel.Type, kind.upper(), None)
    return known if known is not None else cel.Type(kind)


_COMPARED = ("int", "uint", "double")


def _crosswise() -> Iterable[Function]:
    """Numbers of different types may be compared in Kubernetes, if not by equality."""
    for operator in ("_<_", "_<=_", "_>_", "_>=_"):
        for left in _COMPARED:
            for right in _COMPARED:
                if left != right:
                    yield Function(operator, (left, right), "bool", None, member=False)


def _checker(variables: Mapping[str, Kind], messages: bytes | None) -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(
        _pool(messages),
        config=_config(),
        variables={name: _type(kind) for name, kind in variables.items()},
        extensions=[_declared()],
    )


@lru_cache(maxsize=1)
def _config() -> Any:
    from cel_expr_python import cel

    return cel.NewEnvConfigFromYaml(_CONFIG)


@lru_cache(maxsize=1)
def _declared() -> Any:
    """The functions as the checker sees them."""
    from cel_expr_python import cel

    overloads: dict[str, list[Any]] = {}
    for function in (*FUNCTIONS, *_crosswise()):
        overloads.setdefault(function.name, []).append(
            cel.Overload(
                function.overload,
                return_type=_type(function.gives),
                parameters=[_type(kind) for kind in function.takes],
                is_member=function.member,
            )
        )
    return cel.CelExtension("kubernetes", [cel.FunctionDecl(name, some) for name, some in overloads.items()])


@lru_cache(maxsize=1)
def _runner() -> Any:
    """The environment that every expression runs in."""
    from cel_expr_python import cel

    overloads: dict[str, list[Any]] = {}
    for overload in run_overloads(hold_nulls):
        overloads.setdefault(overload.name, []).append(
            cel.Overload(
                overload.overload,
                return_type=_type(overload.gives),
                parameters=[_type(kind) for kind in overload.takes],
                is_member=overload.member,
                impl=overload.does,
            )
        )
    declared = cel.CelExtension("kubernetes", [cel.FunctionDecl(name, some) for name, some in overloads.items()])
    return cel.NewEnv(config=_config(), extensions=[declared])


def _pool(messages: bytes | None) -> Any:
    """The messages that the checker knows: those of the variables, and an empty one for each of Kubernetes' types.

    (Types declared as opaque are all one type to the library.)
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    for known in (duration_pb2, struct_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    named = {kind for function in FUNCTIONS for kind in function.takes if isinstance(kind, str)}
    for package in ("kubernetes", "kubernetes.authorization"):
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for kind in sorted(named):
            if kind.rpartition(".")[0] == package:
                file.message_type.add(name=kind.rpartition(".")[2])
        pool.AddSerializedFile(file.SerializeToString())
    if messages is not None:
        pool.AddSerializedFile(messages)
    return pool


_PLACE = re.compile(r"^ERROR: <input>:(\d+):", re.MULTILINE)
_STRUCT = re.compile(r" not found in struct '[^']*'")


_QUALIFIED = re.compile(
    r"^ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+(?:\.\w+)+)'(.*)\n( \| .*)\n \| \.*\^", re.MULTILINE
)


def _first_name(found: re.Match[str]) -> str:
    """Of ``a.b.c`` where nothing is known, cel-go complains about ``a``, at its place."""
    before, first = found[3].rpartition(".")[0], found[3].partition(".")[0]
    column = max(1, int(found[2]) - len(before))
    told = f"ERROR: <input>:{found[1]}:{column}: undeclared reference to '{first}'{found[4]}"
    return f"{told}\n{found[5]}\n | {'.' * (column - 1)}^"


_OVERLOAD = re.compile(
    r"^(ERROR: <input>:\d+:(\d+): found no matching overload for '(\w+)' applied to )'\((.*)\)'(\n \| (.*)$)",
    re.MULTILINE,
)


def _called_on(found: re.Match[str]) -> str:
    """Of ``x.f(y)`` cel-go says ``X.(Y)``, where the library says ``(X, Y)``."""
    before = found[6][: int(found[2]) - 1]
    if not before.endswith(f".{found[3]}"):
        return found[0]
    depth, end = 0, len(found[4])
    for place, letter in enumerate(found[4]):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            end = place
            break
    target, others = found[4][:end], found[4][end:].removeprefix(", ")
    return f"{found[1]}'{target}.({others})'{found[5]}"


def _compiler_words(text: str, lines_before: int) -> str:
    """The library's message as cel-go words it."""
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    text = _OVERLOAD.sub(_called_on, _QUALIFIED.sub(_first_name, _STRUCT.sub("", text)))
    if lines_before:
        text = _PLACE.sub(lambda found: f"ERROR: <input>:{int(found[1]) - lines_before}:", text)
    return text


_RUNTIME = (
    (re.compile(r"Key not found in map : \"?(.*?)\"?$", re.DOTALL), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"^divide by zero$"), "division by zero"),
    (re.compile(r"^No matching overloads found.*", re.DOTALL), "no such overload"),
    (re.compile(r"^Applying SELECT to non-message type$"), "no such overload"),
    (re.compile(r"^.*Iteration budget exceeded.*", re.DOTALL), COST_EXCEEDED),
    (re.compile(r"^double out of int64 range$"), "integer overflow"),
)
_CODE = re.compile(r"^[A-Z_]+: ")
_CODE_AFTER = re.compile(r" \[[A-Z_]+\]$")


def _runtime_words(text: str) -> str:
    text = _CODE_AFTER.sub("", _CODE.sub("", text))
    for pattern, words in _RUNTIME:
        text, changed = pattern.subn(words, text)
        if changed:
            break
    return text


def is_of_kubernetes(value: Any, kind: str) -> bool:
    """Whether a value of an evaluation is one of Kubernetes' own types."""
    return isinstance(value, dict) and value.get(TAG) == kind
