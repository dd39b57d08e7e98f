"""The jq that stages are selected with: paths, iteration, ``select``, comparisons, the usual small functions.

``compile_expression`` converts a text to a function from a decoded JSON value to the list of results. As in KWOK
(``pkg/utils/expression/query.go``) null results are dropped, and an expression that fails on a value has no result,
which is ``None``: iterating over a missing value is such a failure, and counts as missing.
"""

import functools
import json
import re
from collections.abc import Callable
from typing import Any

from pilothouse.machinery.patterns import PatternError, compiled

Results = list[Any]
Expression = Callable[[Any], Results]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<field>\.[A-Za-z_]\w*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>//|==|!=|<=|>=|\.\.|[.\[\](){}|,:?<>+\-*/%$])
    )""",
    re.VERBOSE,
)
_ORDER = {"null": 0, "bool": 1, "number": 2, "string": 3, "array": 4, "object": 5}


class ExpressionError(ValueError):
    """An expression that can't be read. ``position`` counts characters from 0."""

    def __init__(self, text: str, position: int, reason: str) -> None:
        super().__init__(f"{text!r}, character {position + 1}: {reason}")
        self.position = position


class _Failure(Exception):
    """The expression does not apply to the value: jq's run-time error."""


def compile_expression(text: str) -> Callable[[Any], Results | None]:
    """The function behind an expression. Raises ``ExpressionError``."""
    body = _Parser(text).parse()

    def run(value: Any) -> Results | None:
        try:
            return [result for result in body(value) if result is not None]
        except _Failure:
            return None

    return run


class _Parser:
    """Recursive descent, loosest binding first: ``|``, ``,``, ``//``, or, and, comparison, sum, product, postfix."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                position += len(text[position:]) - len(text[position:].lstrip())
                raise ExpressionError(text, position, f"{text[position]!r} is not supported")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()
        self._at = 0

    def parse(self) -> Expression:
        expression = self._pipe()
        if self._at < len(self._tokens):
            raise self._error("is not expected here")
        return expression

    def _error(self, reason: str) -> ExpressionError:
        if self._at >= len(self._tokens):
            return ExpressionError(self._text, len(self._text), "the expression ends too early")
        _kind, word, position = self._tokens[self._at]
        return ExpressionError(self._text, position, f"{word!r} {reason}")

    def _peek(self) -> str:
        kind, word, _position = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)
        return "" if kind == "string" else word

    def _accept(self, *words: str) -> str:
        word = self._peek()
        if word and word in words:
            self._at += 1
            return word
        return ""

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(f"found where {word!r} is expected")

    def _pipe(self) -> Expression:
        left = self._comma()
        while self._accept("|"):
            left = _chain(left, self._comma())
        return left

    def _comma(self) -> Expression:
        left = self._alternative()
        while self._accept(","):
            left = _both(left, self._alternative())
        return left

    def _alternative(self) -> Expression:
        left = self._or_expression()
        if self._accept("//"):
            return _otherwise(left, self._alternative())
        return left

    def _or_expression(self) -> Expression:
        left = self._and_expression()
        while self._accept("or"):
            left = _binary(left, self._and_expression(), lambda a, b: _truth(a) or _truth(b))
        return left

    def _and_expression(self) -> Expression:
        left = self._comparison()
        while self._accept("and"):
            left = _binary(left, self._comparison(), lambda a, b: _truth(a) and _truth(b))
        return left

    def _comparison(self) -> Expression:
        left = self._sum()
        word = self._accept("==", "!=", "<=", ">=", "<", ">")
        return _binary(left, self._sum(), _COMPARISONS[word]) if word else left

    def _sum(self) -> Expression:
        left = self._product()
        while word := self._accept("+", "-"):
            left = _binary(left, self._product(), _ARITHMETIC[word])
        return left

    def _product(self) -> Expression:
        left = self._postfix()
        while word := self._accept("*", "/", "%"):
            left = _binary(left, self._postfix(), _ARITHMETIC[word])
        return left

    def _postfix(self) -> Expression:
        term = self._term()
        while True:
            kind = self._tokens[self._at][0] if self._at < len(self._tokens) else ""
            if kind == "field":
                term = _chain(term, self._field())
            elif self._peek() in (".", "["):
                self._accept(".")  # ``.a.[]`` is ``.a[]``
                term = self._suffix(term)
            elif self._accept("?"):
                term = _tried(term)
            else:
                return term

    def _field(self) -> Expression:
        name = self._tokens[self._at][1][1:]
        self._at += 1
        return lambda value: [_member(value, name)]

    def _suffix(self, term: Expression) -> Expression:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "string":
            return _chain(term, self._quoted_field())
        self._expect("[")
        if self._accept("]"):
            return _chain(term, _items)
        index = self._pipe()
        self._expect("]")
        return lambda value: [_index(base, key) for base in term(value) for key in index(value)]

    def _quoted_field(self) -> Expression:
        name = self._string()
        return lambda value: [_member(value, name)]

    def _string(self) -> str:
        _kind, word, position = self._tokens[self._at]
        self._at += 1
        if "\\(" in word:
            raise ExpressionError(self._text, position, "string interpolation is not supported")
        return str(json.loads(word))

    def _term(self) -> Expression:
        if self._at >= len(self._tokens):
            raise self._error("")
        kind, word, _position = self._tokens[self._at]
        if kind == "string":
            text = self._string()
            return lambda _value: [text]
        if kind == "number":
            self._at += 1
            number = json.loads(word)
            return lambda _value: [number]
        if kind == "field":
            return self._field()
        if kind == "name":
            return self._call()
        if self._accept("."):
            follows = self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)
            return self._suffix(_identity) if follows[0] == "string" or follows[1] == "[" else _identity
        if self._accept("("):
            inner = self._pipe()
            self._expect(")")
            return inner
        if self._accept("["):
            if self._accept("]"):
                return lambda _value: [[]]
            inner = self._pipe()
            self._expect("]")
            return lambda value: [inner(value)]
        if self._accept("-"):
            inner = self._postfix()
            return lambda value: [_ARITHMETIC["-"](0, result) for result in inner(value)]
        raise self._error("is not supported")

    def _call(self) -> Expression:
        start = self._at
        name = self._tokens[start][1]
        self._at += 1
        arguments: list[Expression] = []
        if self._accept("("):
            arguments.append(self._pipe())
            while self._peek() == ";":
                raise self._error("is not supported")
            self._expect(")")
        if name in _CONSTANTS and not arguments:
            constant = _CONSTANTS[name]
            return lambda _value: [constant]
        factory = _FILTERS.get((name, len(arguments)))
        if factory is None:
            self._at = start
            raise self._error(f"with {len(arguments)} arguments is no function that is supported")
        return factory(*arguments)


# Evaluation


def _identity(value: Any) -> Results:
    return [value]


def _chain(left: Expression, right: Expression) -> Expression:
    def run(value: Any) -> Results:
        results = left(value)
        return (
            right(results[0])
            if len(results) == 1
            else [result for intermediate in results for result in right(intermediate)]
        )

    return run


def _both(left: Expression, right: Expression) -> Expression:
    return lambda value: [*left(value), *right(value)]


def _tried(inner: Expression) -> Expression:
    def run(value: Any) -> Results:
        try:
            return inner(value)
        except _Failure:
            return []

    return run


def _otherwise(left: Expression, right: Expression) -> Expression:
    tried = _tried(left)
    return lambda value: [result for result in tried(value) if _truth(result)] or right(value)


def _binary(left: Expression, right: Expression, apply: Callable[[Any, Any], Any]) -> Expression:
    return lambda value: [apply(a, b) for b in right(value) for a in left(value)]


def _truth(value: Any) -> bool:
    return value is not None and value is not False


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _member(value: Any, name: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _Failure(f"cannot index {_kind(value)} with {name!r}")
    return value.get(name)


def _index(value: Any, key: Any) -> Any:
    if isinstance(key, str):
        return _member(value, key)
    if value is None:
        return None
    if not isinstance(value, list) or _kind(key) != "number":
        raise _Failure(f"cannot index {_kind(value)} with {_kind(key)}")
    number = int(key)
    return value[number] if -len(value) <= number < len(value) else None


def _items(value: Any) -> Results:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value.values())
    raise _Failure(f"cannot iterate over {_kind(value)}")


def _compare(a: Any, b: Any) -> int:
    """jq's order: null, booleans, numbers, strings, arrays, objects."""
    kinds = _kind(a), _kind(b)
    if kinds[0] != kinds[1]:
        return _ORDER[kinds[0]] - _ORDER[kinds[1]]
    if kinds[0] == "array":
        for left, right in zip(a, b, strict=False):
            if order := _compare(left, right):
                return order
        return len(a) - len(b)
    if kinds[0] == "object":
        return 0 if a == b else _compare(sorted(a), sorted(b)) or _compare(_sorted_values(a), _sorted_values(b))
    return 0 if a == b else (-1 if a is None or a < b else 1)


def _sorted_values(value: dict[str, Any]) -> list[Any]:
    return [value[key] for key in sorted(value)]


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: _compare(a, b) == 0,
    "!=": lambda a, b: _compare(a, b) != 0,
    "<": lambda a, b: _compare(a, b) < 0,
    "<=": lambda a, b: _compare(a, b) <= 0,
    ">": lambda a, b: _compare(a, b) > 0,
    ">=": lambda a, b: _compare(a, b) >= 0,
}


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if _kind(a) == _kind(b) == "object":
        return {**a, **b}
    if _kind(a) != _kind(b) or _kind(a) == "bool":
        raise _Failure(f"cannot add {_kind(a)} and {_kind(b)}")
    return a + b


def _number(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        if _kind(a) != "number" or _kind(b) != "number":
            raise _Failure(f"cannot compute with {_kind(a)} and {_kind(b)}")
        try:
            return apply(a, b)
        except ZeroDivisionError as error:
            raise _Failure(str(error)) from error

    return run


def _divide(a: Any, b: Any) -> Any:
    quotient = a / b
    return int(quotient) if quotient == int(quotient) else quotient


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _number(lambda a, b: a - b),
    "*": _number(lambda a, b: a * b),
    "/": _number(_divide),
    "%": _number(lambda a, b: int(abs(a) % abs(b)) * (-1 if a < 0 else 1)),
}
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}


def _length(value: Any) -> Any:
    match _kind(value):
        case "null":
            return 0
        case "bool":
            raise _Failure("boolean has no length")
        case "number":
            return abs(value)
        case _:
            return len(value)


def _has(value: Any, key: Any) -> bool:
    if isinstance(value, dict) and isinstance(key, str):
        return key in value
    if isinstance(value, list) and _kind(key) == "number":
        return bool(0 <= key < len(value))
    raise _Failure(f"cannot check whether {_kind(value)} has {_kind(key)}")


def _text(apply: Callable[[str, str], Any]) -> Callable[[Any, Any], Any]:
    def run(value: Any, argument: Any) -> Any:
        if not isinstance(value, str) or not isinstance(argument, str):
            raise _Failure(f"expects strings, got {_kind(value)} and {_kind(argument)}")
        return apply(value, argument)

    return run


def _test(value: str, pattern: str) -> bool:
    try:
        # Text and pattern may come from annotations. gojq uses Go's regular expressions, as KWOK does.
        return compiled(pattern).search(value) is not None
    except PatternError as error:
        raise _Failure(f"{pattern!r} is no pattern: {error}") from error


def _contains(value: Any, other: Any) -> bool:
    if _kind(value) != _kind(other):
        raise _Failure(f"{_kind(value)} cannot contain {_kind(other)}")
    if isinstance(value, dict):
        return all(key in value and _contains(value[key], item) for key, item in other.items())
    if isinstance(value, list):
        return all(any(_kind(a) == _kind(b) and _contains(a, b) for a in value) for b in other)
    return other in value if isinstance(value, str) else bool(value == other)


def _to_number(value: Any) -> Any:
    if _kind(value) == "number":
        return value
    try:
        return json.loads(value)
    except (TypeError, ValueError) as error:
        raise _Failure(f"{_kind(value)} is not a number") from error


def _sorted(value: Any) -> list[Any]:
    return sorted(_items(value), key=functools.cmp_to_key(_compare))


def _of_value(apply: Callable[[Any], Any]) -> Callable[..., Expression]:
    return lambda: lambda value: [apply(value)]


def _of_argument(apply: Callable[[Any, Any], Any]) -> Callable[..., Expression]:
    return lambda argument: lambda value: [apply(value, operand) for operand in argument(value)]


def _select(condition: Expression) -> Expression:
    return lambda value: [value for result in condition(value) if _truth(result)]


def _filtered_items(decide: Callable[[list[bool]], bool]) -> Callable[..., Expression]:
    return lambda test: lambda value: [decide([_truth(result) for item in _items(value) for result in test(item)])]


_FILTERS: dict[tuple[str, int], Callable[..., Expression]] = {
    ("select", 1): _select,
    ("map", 1): lambda inner: lambda value: [[result for item in _items(value) for result in inner(item)]],
    ("empty", 0): lambda: lambda _value: [],
    ("not", 0): _of_value(lambda value: not _truth(value)),
    ("length", 0): _of_value(_length),
    ("keys", 0): _of_value(lambda value: sorted(value) if isinstance(value, dict) else list(range(len(_items(value))))),
    ("has", 1): _of_argument(_has),
    ("any", 0): _of_value(lambda value: any(_truth(item) for item in _items(value))),
    ("all", 0): _of_value(lambda value: all(_truth(item) for item in _items(value))),
    ("any", 1): _filtered_items(any),
    ("all", 1): _filtered_items(all),
    ("first", 1): lambda inner: lambda value: inner(value)[:1],
    ("first", 0): _of_value(lambda value: _index(value, 0)),
    ("last", 0): _of_value(lambda value: _index(value, -1)),
    ("type", 0): _of_value(lambda value: _kind(value).replace("bool", "boolean")),
    ("tostring", 0): _of_value(lambda value: value if isinstance(value, str) else json.dumps(value)),
    ("tonumber", 0): _of_value(_to_number),
    ("startswith", 1): _of_argument(_text(str.startswith)),
    ("endswith", 1): _of_argument(_text(str.endswith)),
    ("test", 1): _of_argument(_text(_test)),
    ("contains", 1): _of_argument(_contains),
    ("add", 0): _of_value(lambda value: functools.reduce(_add, _items(value), None)),
    ("min", 0): _of_value(lambda value: next(iter(_sorted(value)), None)),
    ("max", 0): _of_value(lambda value: next(reversed(_sorted(value)), None)),
}
