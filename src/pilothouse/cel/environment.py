"""Compiles expressions with typed variables, and evaluates them.

The library lacks three features that Kubernetes needs: custom value types, optional variables, and timestamps inside of
structs. Therefore an expression is *checked* in an environment with the types that Kubernetes declares, and *run* in
one environment for all expressions, in which Kubernetes' types are tagged maps and objects are maps: the checked
expression contains only names of functions and fields, not their representation.

The cost is estimated as upstream does (``costs``). The runtime cost is not counted: the library stops after 10,000
iterations of macros, which is reported as an exceeded cost limit. The maximum time is estimated before (``work``);
``limits`` decides where long evaluations run.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pilothouse.cel.checked import Checked, Type, format_type, read
from pilothouse.cel.costs import Sizes, cost_of
from pilothouse.cel.formats import with_formats
from pilothouse.cel.functions import FUNCTIONS, Function, run_overloads
from pilothouse.cel.limits import (
    COST_EXCEEDED,
    MAX_INLINE_COMPILE_SIZE,
    MAX_INLINE_WORK,
    Compiled,
    EvaluationError,
    GetEvaluator,
    Source,
    Task,
    blocking_evaluator,
)
from pilothouse.cel.literals import literal_errors
from pilothouse.cel.source_text import quoted_identifiers
from pilothouse.cel.work import MAX_MEASURED, Extent, Known, round_up, work_of
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import ctypes

    from cel_expr_python import cel
    from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2

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
  - {name: lists, version: 2}
"""
_BINDINGS = "  - {name: bindings}\n"
_MAX_BOUNDS = 64
_MAX_ESTIMATED_BYTES = 16 * 1024
"""The limit in bytes of a checked expression that ``work`` estimates, which takes about 5 ms the first time. Larger
ones are deserialized and evaluated only in the sandbox process, if there is one."""
NO_LOCATION = "ERROR: <input>:-1:0:"
"""cel-go's position of an error without a location."""


class CompileError(ValueError):
    """An expression that does not compile or has the wrong type. The message is the compiler's, possibly of several
    lines."""


class Environment:
    """The typed variables of expressions. ``messages`` is a serialized ``FileDescriptorProto`` with object types (see
    ``schemas``). ``optional`` names the variables that may be optional in an expression. ``bindings`` allows
    ``cel.bind``, which only few of Kubernetes' environments have."""

    def __init__(
        self,
        variables: Mapping[str, Kind],
        messages: bytes | None = None,
        *,
        optional: str = "",
        bindings: bool = False,
    ) -> None:
        self._variables = dict(variables)
        if optional:
            self._variables |= {f"{optional}__given": "bool", f"{optional}__value": self._variables[optional]}
        self._messages, self._bindings = messages, bindings
        self._checkers: dict[bool, Any] = {}

    def compile(
        self, source: str, *, return_types: Iterable[str] = (), optional_variable: str = "", uniform: bool = True
    ) -> "Program":
        """Compile an expression; ``return_types`` are the allowed result types, by default any. ``uniform``: the
        elements of a list or map must have one type, as upstream; not for initializers that are compiled as maps.

        ``optional_variable`` names a variable that is optional in the expression: it is bound to ``optional.of`` its
        value, or to ``optional.none()`` if the evaluation has none. Large expressions are compiled by
        ``blocking_evaluator``. Raises ``CompileError``, and ``WouldBlock`` on the event loop.
        """
        compiled = self._compiled(self._source(source, optional_variable, uniform=uniform))
        return _program(source, compiled, return_types, optional_variable)

    async def compile_in_background(
        self,
        source: str,
        get_evaluator: GetEvaluator,
        *,
        return_types: Iterable[str] = (),
        optional_variable: str = "",
        uniform: bool = True,
    ) -> "Program":
        """Compile on the event loop; a large expression is compiled in the sandbox process. Raises ``CompileError`` and
        ``Busy``."""
        compiling = self._compiled_in_background(
            self._source(source, optional_variable, uniform=uniform), get_evaluator
        )
        return _program(source, await compiling, return_types, optional_variable)

    def check(self, source: str) -> str:
        """Only type-check. Returns the name of the expression's type in lower case. Raises ``CompileError``."""
        return _kind(self._compiled(self._source(source, "", runs=False)))

    async def check_in_background(self, source: str, get_evaluator: GetEvaluator) -> str:
        """Type-check on the event loop, as ``compile_in_background``."""
        return _kind(await self._compiled_in_background(self._source(source, "", runs=False), get_evaluator))

    def _source(self, source: str, optional_variable: str, *, runs: bool = True, uniform: bool = True) -> Source:
        text = with_formats(source)
        if optional_variable:
            # On a line of its own, so that columns in messages are those of the source.
            value = f"{optional_variable}__given ? optional.of({optional_variable}__value) : optional.none()"
            text = f"cel.bind({optional_variable}, {value},\n{text}\n)"
        bindings = self._bindings or bool(optional_variable)
        return Source(text, self._variables, self._messages, 1 if optional_variable else 0, runs, bindings, uniform)

    def _compiled(self, source: Source) -> Compiled:
        evaluator = blocking_evaluator.get()
        if evaluator is None or evaluator.compiles_inline(source.size):
            return self.compiled(source)
        return evaluator.compile(source)

    async def _compiled_in_background(self, source: Source, get_evaluator: GetEvaluator) -> Compiled:
        evaluator = None if source.size <= MAX_INLINE_COMPILE_SIZE else get_evaluator()
        return self.compiled(source) if evaluator is None else await evaluator.run_compile(source)

    def compiled(self, source: Source) -> Compiled:
        """Compile in this process, however long it takes."""
        if quoted := quoted_identifiers(source.text):
            located = [(*_position(source.text, offset), "unsupported syntax: '`'") for offset in quoted]
            return Compiled(error=_compile_error_text(_located_errors(source.text, located), source.line_offset))
        try:
            bindings = source.bindings
            if bindings not in self._checkers:
                self._checkers[bindings] = _checker(self._variables, self._messages, bindings)
            checked = self._checkers[bindings].compile(source.text)
        except RuntimeError as error:
            detail = _compile_error_text(str(error), source.line_offset)
            # An empty text has no position in cel-go.
            return Compiled(error=detail if source.text else detail.replace(":1:1:", ":1:0:", 1))
        except TypeError as error:  # of the messages' descriptors: thousands of fields
            return Compiled(error=f"{NO_LOCATION} the types of the variables are too large: {error}")
        kind = checked.return_type().name().lower()
        if not source.runs:
            return Compiled(kind=kind)
        serialized = checked.serialize()
        if errors := _literal_error_text(read(serialized), source):
            return Compiled(error=_compile_error_text(errors, source.line_offset))
        try:
            runnable(serialized)
        except RuntimeError:
            return Compiled(error=f"{NO_LOCATION} expression recursion limit exceeded")
        return Compiled(serialized, kind)


_RESULT_TYPES = {"null": "null_type"}
"""Names of types of the library, and those of cel-go."""


def _program(source: str, compiled: Compiled, return_types: Iterable[str], optional_variable: str) -> "Program":
    kind, desired = _kind(compiled), tuple(return_types)
    if desired and _RESULT_TYPES.get(kind, kind) not in desired:
        raise CompileError(output_type(compiled.checked))
    return Program(source, optional_variable, compiled.checked)


def output_type(serialized: bytes) -> str:
    """The type of a checked expression, as cel-go prints it."""
    checked = read(serialized)
    return format_type(checked.type_of(checked.root))


def _kind(compiled: Compiled) -> str:
    if compiled.error:
        raise CompileError(compiled.error)
    return compiled.kind


@lru_cache(maxsize=8)
def _last_runnable(checked: bytes) -> Any:
    return _runner().deserialize(checked)


def runnable(checked: bytes) -> Any:
    """Load a checked expression for evaluation. Raises ``RuntimeError`` if it is nested too deep."""
    return _last_runnable(checked)


class Program:
    def __init__(self, source: str, optional_variable: str, checked: bytes) -> None:
        self.source = source
        self._runnable: Any = None
        self._optional_variable = optional_variable
        self._checked = checked
        self._tree: Checked | None = None
        self._bounds: dict[Extent, int] = {}

    @classmethod
    def of_task(cls, task: Task) -> "Program":
        """The program of a task, in the sandbox process."""
        return cls("", task.optional_variable, task.checked)

    def task(self, values: Mapping[str, Any]) -> Task:
        """A task for the sandbox process."""
        return Task(self._checked, self._optional_variable, values)

    def work(self, values: Mapping[str, Any], extent: Extent) -> int:
        """The maximum work of an evaluation, in units of ``work``, or more than ``MAX_INLINE_WORK`` if the estimate
        itself takes long. ``extent`` is that of all values together."""
        if len(self._checked) > _MAX_ESTIMATED_BYTES:
            return MAX_INLINE_WORK + 1
        coarse = round_up(extent)
        bound = self._bounds.get(coarse)
        if bound is None:
            if len(self._bounds) >= _MAX_BOUNDS:
                self._bounds.clear()
            bound = self._bounds[coarse] = work_of(self._read(), coarse)
        if bound <= MAX_INLINE_WORK or extent.weight > MAX_MEASURED:
            return bound
        return self.bound(values)

    def bound(self, values: Mapping[str, Any]) -> int:
        """The maximum work of an evaluation, in units of ``work``, however long the estimate takes."""
        return work_of(self._read(), {name: Known([value]) for name, value in self._bound_values(values).items()})

    def _read(self) -> Checked:
        if self._tree is None:
            self._tree = read(self._checked)
        return self._tree

    def cost(self, sizes: Sizes) -> int:
        """The maximum cost in upstream's units, from the sizes in the schema."""
        checked = read(self._checked)
        # The optional variable is bound around the expression (``compile``), which upstream does not do.
        return cost_of(checked, sizes, checked.root.parts[3] if self._optional_variable else None)

    @property
    def checked(self) -> Checked:
        """The checked expression."""
        return self._read()

    @property
    def output_type(self) -> Type:
        """The type of the result."""
        checked = self._read()
        return checked.type_of(checked.root)

    def load(self) -> None:
        """Load the expression before the first evaluation."""
        if self._runnable is None:
            self._runnable = runnable(self._checked)

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Evaluate the expression. Raises ``EvaluationError``."""
        self.load()
        try:
            result = self._runnable.eval(data=self._bound_values(values))
        except RuntimeError as error:
            raise EvaluationError(_runtime_error_text(str(error))) from None
        except ValueError:
            # A list that is too long, or of negative length, which is an empty one upstream.
            raise EvaluationError(COST_EXCEEDED) from None
        kind = result.type().name()
        if kind == "NULL":
            return None
        try:
            value = result.plain_value()
        except (RuntimeError, TypeError, SystemError) as error:  # optional values, and lists of some
            named = "optional" if kind == "ERROR" else kind.lower()
            raise EvaluationError(f"a value of type {named} is of no use here: {error}") from None
        if kind == "ERROR":
            raise EvaluationError(_runtime_error_text(str(value)))
        return hold_nulls(value)

    def _bound_values(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._optional_variable:
            return values
        has_value = self._optional_variable in values
        return {
            **values,
            f"{self._optional_variable}__given": has_value,
            f"{self._optional_variable}__value": values[self._optional_variable] if has_value else 0,
        }


def hold_nulls(value: Any) -> Any:
    """Return the value, after adding a reference for each null in it.

    The library returns None without incrementing its reference count (0.1.3). Since Python 3.12 None is immortal;
    before, it and the interpreter would be destroyed after some thousand nulls.
    """
    if sys.version_info < (3, 12):
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
    if isinstance(kind, tuple):
        inner = _type(kind[1])
        return cel.Type.List(inner) if kind[0] == "list" else cel.Type.Map(cel.Type.STRING, inner)
    scalar = getattr(cel.Type, kind.upper(), None)
    return scalar if scalar is not None else cel.Type(kind)


_COMPARED = ("int", "uint", "double")


def _mixed_comparisons() -> Iterable[Function]:
    """Comparisons between different number types, which Kubernetes allows except for equality."""
    for operator in ("_<_", "_<=_", "_>_", "_>=_"):
        for left in _COMPARED:
            for right in _COMPARED:
                if left != right:
                    yield Function(operator, (left, right), "bool", None, member=False)


def _checker(variables: Mapping[str, Kind], messages: bytes | None, bindings: bool) -> Any:
    return cel.NewEnv(
        _pool(messages),
        config=_declaration_config(bindings),
        variables={name: _type(kind) for name, kind in variables.items()},
        extensions=[_declarations()],
    )


@lru_cache(maxsize=2)
def _declaration_config(bindings: bool) -> Any:
    # Kubernetes has no cel.bind(); only ``compile`` uses it, around an expression.
    return cel.NewEnvConfigFromYaml(_CONFIG + _BINDINGS if bindings else _CONFIG)


@lru_cache(maxsize=1)
def _declarations() -> Any:
    """The function declarations for the checker."""
    return _extension((*FUNCTIONS, *_mixed_comparisons()))


def _extension(functions: Iterable[Function], **implementation: str) -> Any:
    overloads: dict[str, list[Any]] = {}
    for function in functions:
        overloads.setdefault(function.name, []).append(
            cel.Overload(
                function.overload,
                return_type=_type(function.result_type),
                parameters=[_type(kind) for kind in function.argument_types],
                is_member=function.member,
                **{name: getattr(function, attribute) for name, attribute in implementation.items()},
            )
        )
    return cel.CelExtension(
        "kubernetes", [cel.FunctionDecl(name, declarations) for name, declarations in overloads.items()]
    )


@lru_cache(maxsize=1)
def _runner() -> Any:
    """The environment in which every expression runs."""
    return cel.NewEnv(
        config=_declaration_config(True), extensions=[_extension(run_overloads(hold_nulls), impl="implementation")]
    )


def _pool(messages: bytes | None) -> Any:
    """The messages of the checker: those of the variables, and an empty one for each of Kubernetes' types. (The library
    does not distinguish opaque types.)"""
    pool = descriptor_pool.DescriptorPool()
    for standard_messages in (duration_pb2, struct_pb2, timestamp_pb2):
        pool.AddSerializedFile(standard_messages.DESCRIPTOR.serialized_pb)
    named = {kind for function in FUNCTIONS for kind in function.argument_types if isinstance(kind, str)}
    for package in ("kubernetes", "kubernetes.authorization"):
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for kind in sorted(named):
            if kind.rpartition(".")[0] == package:
                file.message_type.add(name=kind.rpartition(".")[2])
        pool.AddSerializedFile(file.SerializeToString())
    if messages is not None:
        pool.AddSerializedFile(messages)
    return pool


_ERROR_TEXTS = (
    (re.compile(r" cannot be the range of a comprehension "), " cannot be range of a comprehension "),
    (
        re.compile(r"^(ERROR: <input>:\d+:\d+: )expression of type '(.*)' cannot be the operand of a select operation$",
                   re.MULTILINE),
        r"\1type '\2' does not support field selection",
    ),
    (re.compile(r"has\(\) argument must be a field selection"), "invalid argument to has() macro"),
    (re.compile(r"\b(?:map|filter)\(\) variable name must be a simple identifier"), "argument is not an identifier"),
    (re.compile(r"\b(?!opt)\w+\(\) (?:first |second )?variable name must be a simple identifier"),
     "argument must be a simple name"),
    (re.compile(r"'\(.*\)'$", re.MULTILINE), lambda found: found[0].replace("null_type", "null")),
    (re.compile(r"\*error\*"), "!error!"),
    (re.compile(r"\bcustom\.(?!Object\d)"), "kubernetes."),
)  # fmt: skip
"""Texts of the library, and those of cel-go (``checker/errors.go``, ``parser/macro.go``)."""
_OF_ERROR = re.compile(
    r"\nERROR: <input>:\d+:\d+: expression of type '\*error\*' cannot be .*\n \| .*\n \| \.*\^|"
    r"\nERROR: <input>:-1:-1: <<nil>> parsetree$"
)
"""What cel-go does not report: consequences of the errors before."""
_PLACE = re.compile(r"^ERROR: <input>:(\d+):", re.MULTILINE)
_STRUCT = re.compile(r" not found in struct '[^']*'")


_QUALIFIED = re.compile(
    r"^ERROR: <input>:(\d+):(\d+): undeclared reference to '(\w+(?:\.\w+)+)'(.*)\n( \| .*)\n \| \.*\^", re.MULTILINE
)


def _undeclared_root(match: re.Match[str]) -> str:
    """For ``a.b.c`` with undeclared ``a``, cel-go reports ``a`` at its position."""
    qualifier, first = match[3].rpartition(".")[0], match[3].partition(".")[0]
    column = max(1, int(match[2]) - len(qualifier))
    detail = f"ERROR: <input>:{match[1]}:{column}: undeclared reference to '{first}'{match[4]}"
    return f"{detail}\n{match[5]}\n | {'.' * (column - 1)}^"


_OVERLOAD = re.compile(
    r"^(ERROR: <input>:\d+:(\d+): found no matching overload for '(\w+)' applied to )'\((.*)\)'(\n \| (.*)$)",
    re.MULTILINE,
)


def _receiver_call(match: re.Match[str]) -> str:
    """cel-go prints the call ``x.f(y)`` as ``X.(Y)``, the library as ``(X, Y)``."""
    prefix = match[6][: int(match[2]) - 1]
    if not prefix.endswith(f".{match[3]}"):
        return match[0]
    depth, end = 0, len(match[4])
    for place, letter in enumerate(match[4]):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            end = place
            break
    target, evaluator = match[4][:end], match[4][end:].removeprefix(", ")
    return f"{match[1]}'{target}.({evaluator})'{match[5]}"


def _literal_error_text(checked: Checked, source: Source) -> str:
    """The errors of literals, in the order of their positions."""
    located = [
        (*_position(source.text, checked.positions.get(node.id, 0)), message)
        for node, message in literal_errors(checked, uniform=source.uniform)
    ]
    return _located_errors(source.text, sorted(located, key=lambda error: error[:2]))


def _position(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 0."""
    return text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)


def _located_errors(text: str, errors: Iterable[tuple[int, int, str]]) -> str:
    """Errors of lines and columns, as cel-go prints them."""
    lines = text.split("\n")
    return "\n".join(
        f"ERROR: <input>:{line + 1}:{column + 1}: {message}\n | {lines[line]}\n | {'.' * column}^"
        for line, column, message in errors
    )


def _compile_error_text(text: str, line_offset: int) -> str:
    """Convert the library's error message to cel-go's."""
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    text = _OVERLOAD.sub(_receiver_call, _QUALIFIED.sub(_undeclared_root, _STRUCT.sub("", text)))
    text = _OF_ERROR.sub("", text)
    for pattern, words in _ERROR_TEXTS:
        text = pattern.sub(words, text)
    if line_offset:
        text = _PLACE.sub(lambda found: f"ERROR: <input>:{int(found[1]) - line_offset}:", text)
    if not text.startswith("ERROR: "):
        text = f"{NO_LOCATION} {_limit_error_text(text)}"
    return text


_LIMITS = (
    (
        re.compile(r"^expression size exceeds codepoint limit\. input size: (\d+), limit: (\d+).*", re.DOTALL),
        r"expression code point size exceeds limit: size: \1, limit \2",
    ),
    (
        re.compile(r"^CANCELLED: Expression recursion limit exceeded\. limit: (\d+).*", re.DOTALL),
        r"expression recursion limit exceeded: \1",
    ),
)


def _limit_error_text(text: str) -> str:
    for pattern, words in _LIMITS:
        text, changed = pattern.subn(words, text)
        if changed:
            break
    return text


_RUNTIME = (
    (re.compile(r"Key not found in map : \"?(.*?)\"?$", re.DOTALL), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"^divide by zero$"), "division by zero"),
    (re.compile(r"^No matching overloads found.*", re.DOTALL), "no such overload"),
    (re.compile(r"^Applying SELECT to non-message type$"), "no such overload"),
    (re.compile(r"^.*Iteration budget exceeded.*", re.DOTALL), COST_EXCEEDED),
    (re.compile(r"^double out of int64 range$"), "integer overflow"),
    (re.compile(r"^cannot convert string to (double|int|uint)$"), r"type conversion error from 'string' to '\1'"),
    (re.compile(r"^Type conversion error"), "type conversion error"),
    (
        re.compile(r"^String to (Duration|Timestamp) conversion failed$"),
        r"type conversion error from 'string' to 'google.protobuf.\1'",
    ),
    (re.compile(r"^int64 out of uint64 range$"), "unsigned integer overflow"),
    (re.compile(r"^malformed UTF-8 bytes$"), "invalid UTF-8 in bytes, cannot convert to string"),
    (re.compile(r"^sort\(\): unsupported type .*"), "list elements must be comparable"),
    (re.compile(r"^(?:sort|flatten)\(\): "), ""),
)
_CODE = re.compile(r"^[A-Z_]+: ")
_CODE_AFTER = re.compile(r" \[[A-Z_]+\]$")


def _runtime_error_text(text: str) -> str:
    text = _CODE_AFTER.sub("", _CODE.sub("", text))
    for pattern, words in _RUNTIME:
        text, changed = pattern.subn(words, text)
        if changed:
            break
    return text
