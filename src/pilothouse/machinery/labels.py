"""Label selectors: parsed from text or from ``LabelSelector``, and compiled for matching.

Grammar, matching and error texts are upstream's (apimachinery 0.36, ``pkg/labels/selector.go`` and
``pkg/apis/meta/v1/helpers.go``). The API server parses selectors of requests, informers and controllers match with
them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.machinery.go_text import compact_json, quote
from pilothouse.machinery.names import label_value_errors, qualified_name_errors

Matcher = Callable[[Mapping[str, str]], bool]

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_integer = re.compile("[+-]?[0-9]+", re.ASCII)

_BINARY_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_OPERATOR_SIGNS = {"=": "=", "==": "==", "!=": "!=", "in": " in ", "notin": " notin ", "gt": ">", "lt": "<"}
_SELECTOR_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


_FEW = 8
"""Selectors with up to this many requirements are matched one by one; larger ones by label."""


class SelectorError(ValueError):
    """A selector that upstream rejects, with upstream's message."""


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label.

    ``operator`` is one of ``=`` ``==`` ``!=`` ``in`` ``notin`` ``exists`` ``!`` ``gt`` ``lt``. As upstream, ``!=``,
    ``notin`` and ``!`` also match if the label is missing.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return "!" + self.key
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case operator:
                return self.key + _OPERATOR_SIGNS[operator] + ",".join(sorted(self.values))


class Selector:
    """Requirements that must all match. Immutable; equal if the requirements are.

    ``matches`` is a compiled function: look it up once to call it in a loop. ``str()`` gives the canonical text, which
    parses to an equal selector (``NOTHING`` prints as the empty text, as upstream).
    """

    __slots__ = ("_selects_nothing", "matches", "requirements")

    matches: Matcher
    requirements: tuple[Requirement, ...]

    def __init__(self, requirements: Iterable[Requirement] = (), *, selects_nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda r: r.key))
        self._selects_nothing = selects_nothing
        self.matches = _match_nothing if selects_nothing else _compile(self.requirements)

    @property
    def empty(self) -> bool:
        """Whether everything matches, because there are no requirements."""
        return not self.requirements and not self._selects_nothing

    @property
    def selects_nothing(self) -> bool:
        return self._selects_nothing

    def exact(self, key: str) -> str | None:
        """The one value that the label ``key`` must have, if the selector requires it; an index can be used then."""
        for requirement in self.requirements:
            if requirement.key == key:
                fixed = requirement.operator in ("=", "==", "in") and len(requirement.values) == 1
                return requirement.values[0] if fixed else None
        return None

    def exact_labels(self) -> Iterator[tuple[str, str]]:
        """The labels that the selector requires to have one value, as ``exact``."""
        previous = None
        for requirement in self.requirements:  # sorted by key
            key = requirement.key
            if key != previous and requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
                yield key, requirement.values[0]
            previous = key

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "NOTHING" if self._selects_nothing else f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self.requirements == other.requirements and self._selects_nothing == other._selects_nothing

    def __hash__(self) -> int:
        return hash((self.requirements, self._selects_nothing))


# Matching -----------------------------------------------------------------------------------------------------------


def _match_everything(_labels: Mapping[str, str]) -> bool:
    return True


def _match_nothing(_labels: Mapping[str, str]) -> bool:
    return False


def _compile(requirements: Sequence[Requirement]) -> Matcher:
    if not requirements:
        return _match_everything
    if all(r.operator in ("=", "==") for r in requirements):
        return _compile_equalities([(r.key, r.values[0]) for r in requirements])
    if len(requirements) > _FEW:
        return _compile_many(requirements)
    matchers = [_compile_one(r) for r in requirements]
    if len(matchers) == 1:
        return matchers[0]

    def match_all(labels: Mapping[str, str]) -> bool:
        for matcher in matchers:  # noqa: SIM110 - all() with a generator costs half as much again
            if not matcher(labels):
                return False
        return True

    return match_all


def _compile_equalities(pairs: Sequence[tuple[str, str]]) -> Matcher:
    # Nearly every selector of a workload has one to three equalities; unrolled they cost one lookup each.
    if len(pairs) == 1:
        ((key, value),) = pairs
        return lambda labels: labels.get(key) == value
    if len(pairs) == 2:
        (key, value), (key2, value2) = pairs
        return lambda labels: labels.get(key) == value and labels.get(key2) == value2

    def match_pairs(labels: Mapping[str, str]) -> bool:
        for key, value in pairs:  # noqa: SIM110 - as above
            if labels.get(key) != value:
                return False
        return True

    return match_pairs


def _compile_many(requirements: Sequence[Requirement]) -> Matcher:
    """By label, so that the cost depends on the number of the object's labels, not on that of requirements."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    required_keys = {r.key for r in requirements if r.operator not in ("!=", "notin", "!")}
    checks = {key: _compile_key(key, key_requirements) for key, key_requirements in by_key.items()}

    def match_many(labels: Mapping[str, str]) -> bool:
        if len(required_keys) > len(labels) or not required_keys <= labels.keys():
            return False
        for key in labels:
            check = checks.get(key)
            if check is not None and not check(labels):
                return False
        return True

    return match_many


def _compile_key(key: str, requirements: Sequence[Requirement]) -> Matcher:
    """All requirements of one label, for objects that have it; several with the same operator are combined."""
    allowed: frozenset[str] | None = None
    forbidden: set[str] = set()
    least, greatest = _MIN_INT64 - 1, _MAX_INT64 + 1
    ordered = False
    for requirement in requirements:
        match requirement.operator:
            case "=" | "==" | "in":
                values = frozenset(requirement.values)
                allowed = values if allowed is None else allowed & values
            case "!=" | "notin":
                forbidden.update(requirement.values)
            case "!":
                return _match_nothing
            case "gt" | "lt":
                limit = _int64(requirement.values[0])
                assert limit is not None, "the value of gt and lt is checked before it gets here"
                ordered = True
                if requirement.operator == "gt":
                    least = max(least, limit)
                else:
                    greatest = min(greatest, limit)

    def match_key(labels: Mapping[str, str]) -> bool:
        value = labels[key]
        if value in forbidden or (allowed is not None and value not in allowed):
            return False
        if not ordered:
            return True
        number = _int64(value)
        return number is not None and least < number < greatest

    return match_key


def _compile_one(requirement: Requirement) -> Matcher:
    key, values = requirement.key, frozenset(requirement.values)
    match requirement.operator:
        case "=" | "==" | "in":
            if len(values) == 1:
                return _compile_equalities([(key, requirement.values[0])])
            return lambda labels: labels.get(key) in values
        case "!=" | "notin":
            if len(values) == 1:
                (value,) = values
                return lambda labels: labels.get(key) != value
            return lambda labels: labels.get(key) not in values
        case "exists":
            return lambda labels: key in labels
        case "!":
            return lambda labels: key not in labels
        case "gt" | "lt":
            return _compile_order(key, requirement.operator, requirement.values[0])
        case operator:
            raise SelectorError(f"{quote(operator)} is not a valid label selector operator")


def _compile_order(key: str, operator: str, text: str) -> Matcher:
    limit = _int64(text)
    assert limit is not None, "the value of gt and lt is checked before it gets here"

    def match_order(labels: Mapping[str, str]) -> bool:
        number = _int64(labels.get(key, ""))
        return number is not None and (number > limit if operator == "gt" else number < limit)

    return match_order


def _int64(text: str) -> int | None:
    """As ``strconv.ParseInt(text, 10, 64)``; a label value has at most 63 characters."""
    if not _integer.fullmatch(text):
        return None
    number = int(text)
    return number if _MIN_INT64 <= number <= _MAX_INT64 else None


# Construction -------------------------------------------------------------------------------------------------------


def new_requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    """A validated requirement. Raises ``SelectorError``."""
    errors = []
    if key_errors := qualified_name_errors(key):
        errors.append(f"key: Invalid value: {quote(key)}: {'; '.join(key_errors)}")
    quoted = compact_json(values) if values else "null"
    match operator:
        case "in" | "notin":
            if not values:
                errors.append(
                    f"values: Invalid value: {quoted}: for 'in', 'notin' operators, values set can't be empty"
                )
        case "=" | "==" | "!=":
            if len(values) != 1:
                errors.append(f"values: Invalid value: {quoted}: exact-match compatibility requires one single value")
        case "exists" | "!":
            if values:
                errors.append(
                    f"values: Invalid value: {quoted}: values set must be empty for exists and does not exist"
                )
        case "gt" | "lt":
            if len(values) != 1:
                reason = "for 'Gt', 'Lt' operators, exactly one value is required"
                errors.append(f"values: Invalid value: {quoted}: {reason}")
            for index, value in enumerate(values):
                if _int64(value) is None:
                    reason = "for 'Gt', 'Lt' operators, the value must be an integer"
                    errors.append(f"values[{index}]: Invalid value: {quote(value)}: {reason}")
        case _:
            raise SelectorError(f"{quote(operator)} is not a valid label selector operator")
    for index, value in enumerate(values):
        if value_errors := label_value_errors(value):
            errors.append(f"values[{index}][{key}]: Invalid value: {quote(value)}: {'; '.join(value_errors)}")
    if errors:
        errors = list(dict.fromkeys(errors))
        raise SelectorError(errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]")
    return Requirement(key, operator, tuple(values))


def selector_from(selector: LabelSelector | None) -> Selector:
    """The selector of a ``LabelSelector`` field: None selects nothing, ``{}`` everything. Raises ``SelectorError``."""
    if selector is None:
        return NOTHING
    if not selector.match_expressions:
        return _selector_from_pairs(tuple(sorted(selector.match_labels.items())))
    requirements = [new_requirement(key, "=", (value,)) for key, value in sorted(selector.match_labels.items())]
    for expression in selector.match_expressions:
        operator = _SELECTOR_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f"{quote(expression.operator)} is not a valid label selector operator")
        requirements.append(new_requirement(expression.key, operator, expression.values))
    return Selector(requirements)


# Controllers compute the selector of the same owner in every sync; it is only validated once.
def _selector_from_pairs(pairs: tuple[tuple[str, str], ...]) -> Selector:
    return (_cached_selector if len(pairs) <= _FEW_LABELS else _new_selector)(pairs)


def _new_selector(pairs: tuple[tuple[str, str], ...]) -> Selector:
    if not pairs:
        return EVERYTHING
    return Selector([new_requirement(key, "=", (value,)) for key, value in pairs])


_FEW_LABELS = 16
_cached_selector = lru_cache(maxsize=4096)(_new_selector)


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """The selector of a map of labels, not validated: upstream's ``SelectorFromSet``. Empty selects everything."""
    return Selector([Requirement(key, "=", (value,)) for key, value in labels.items()])


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(selects_nothing=True)


# Parsing ------------------------------------------------------------------------------------------------------------

_END, _IDENTIFIER = "end", "identifier"
_token = re.compile(r"[ \t\r\n]*(?:(?P<sign>==|!=|[=!(),<>])|(?P<word>[^=!(),<> \t\r\n\0]+\0?)|(?P<end>\0?))")


def parse_selector(text: str) -> Selector:
    """Parse a selector from a client. Raises ``SelectorError`` with upstream's message."""
    if not text:
        return EVERYTHING
    return _Parser(text).parse()


class _Parser:
    """Recursive descent parser, as upstream's. A token is (kind, text); symbols are their own kind."""

    def __init__(self, text: str) -> None:
        self._tokens = _scan(text)
        self._position = 0

    def _peek(self) -> tuple[str, str]:
        kind, text = self._tokens[self._position]
        # "in" and "notin" are only operators where an operator is expected: ``in in (in)`` is a selector.
        return (_IDENTIFIER if kind in ("in", "notin") else kind), text

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._position += 1
        return token

    def parse(self) -> Selector:
        requirements: list[Requirement] = []
        while True:
            kind, text = self._peek()
            if kind == _END:
                return Selector(requirements)
            if kind not in (_IDENTIFIER, "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self._take()
            if kind == _END:
                return Selector(requirements)
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._peek()
            if kind not in (_IDENTIFIER, "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, key = self._take()
        absent = kind == "!"
        if absent:
            kind, key = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{key}', expected: identifier")
        if errors := qualified_name_errors(key):
            # The path of this error is nil upstream, and is printed as ``<nil>``.
            raise SelectorError(f"<nil>: Invalid value: {quote(key)}: {'; '.join(errors)}")
        if absent:
            return new_requirement(key, "!", ())
        if self._peek()[0] in (_END, ","):
            return new_requirement(key, "exists", ())
        operator = self._operator()
        values = self._values() if operator in ("in", "notin") else self._value()
        return new_requirement(key, operator, sorted(set(values)))

    def _operator(self) -> str:
        kind, text = self._tokens[self._position]
        self._position += 1
        if kind in ("in", "notin", "=", "==", "!="):
            return kind
        if kind in (">", "<"):
            return "gt" if kind == ">" else "lt"
        raise SelectorError(f"found '{text}', expected: {_BINARY_OPERATORS}")

    def _value(self) -> list[str]:
        if self._peek()[0] in (_END, ","):
            return [""]
        kind, text = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{text}', expected: identifier")
        return [text]

    def _values(self) -> list[str]:
        kind, text = self._take()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, literal = self._peek()
        if kind == ")":
            self._take()
            return [""]
        if kind not in (_IDENTIFIER, ","):
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self._identifiers()
        if self._take()[0] != ")":
            raise SelectorError(f"found '{literal}', expected: ')'")
        return values

    def _identifiers(self) -> list[str]:
        values: list[str] = []
        while True:
            kind, text = self._take()
            if kind == _IDENTIFIER:
                values.append(text)
                kind, text = self._peek()
                if kind == ")":
                    return values
                if kind != ",":
                    raise SelectorError(f"found '{text}', expected: ',' or ')'")
            elif kind == ",":
                # A missing value between commas is the empty value: ``(,a)``, ``(a,)``, ``(a,,b)``.
                following = self._peek()[0]
                if not values or following in (",", ")"):
                    values.append("")
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")


def _scan(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while True:
        match = _token.match(text, position)
        assert match is not None, "the empty end matches anywhere"
        position = match.end()
        if sign := match["sign"]:
            tokens.append((sign, sign))
        elif word := match["word"]:
            # Upstream's lexer treats a NUL as the end of a word, and between words as the end of the text.
            word = word.rstrip("\0")
            tokens.append((word if word in ("in", "notin") else _IDENTIFIER, word))
        else:
            tokens.append((_END, ""))
            return tokens
