"""``$((…))`` and ``expr``: integers of 64 bits, as in POSIX shells. Pure."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from pilothouse.nodes.shell_words import Unclear

_TOKEN = re.compile(
    r"\s*(?:\$?\{?([A-Za-z_]\w*)\}?|(0[xX][0-9a-fA-F]{1,16}|\d{1,18})|(\*\*|<=|>=|==|!=|&&|\|\||[-+*/%()<>!]))",
    re.ASCII,
)
_NUMBER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_OCTAL = re.compile(r"[+-]?0\d+", re.ASCII)
_MAX_DEPTH = 20


def _divided(left: int, right: int) -> int:
    """Rounded towards zero."""
    if right == 0:
        raise Unclear("a division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_OPERATIONS: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda left, right: int(bool(left or right))),
    "&&": (2, lambda left, right: int(bool(left and right))),
    "==": (3, operator.eq),
    "!=": (3, operator.ne),
    "<": (4, operator.lt),
    "<=": (4, operator.le),
    ">": (4, operator.gt),
    ">=": (4, operator.ge),
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
    "/": (6, _divided),
    "%": (6, lambda left, right: left - _divided(left, right) * right),
}
"""Operator → its precedence, and what it computes."""


def arithmetic_value(text: str, variables: Mapping[str, str | None]) -> str | None:
    """The value of an expression; None if it depends on an unknown variable. Raises ``Unclear`` if it is not
    supported, such as an assignment."""
    operands: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unclear("arithmetic")
        at = match.end()
        name, number, sign = match.groups()
        if name is not None:
            value = variables.get(name)
            if value is None:
                return None
            number = value.strip() or "0"
            if not _NUMBER.fullmatch(number):
                raise Unclear("arithmetic with a text")
        if number is not None and _OCTAL.fullmatch(number):
            raise Unclear("an octal number")
        operands.append(sign if number is None else str(int(number, 16 if number[:2] in ("0x", "0X") else 10)))
    return str(_Parser(operands).value())


def expr(arguments: Sequence[str]) -> tuple[str, int]:
    """The output and the status of ``expr``. Raises ``Unclear`` for what is not supported: patterns and functions."""
    match arguments:
        case [left, "=" | "==" | "!=" as sign, right] if not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
            result = str(int((left == right) == (sign != "!=")))
        case _:
            words = ["==" if word == "=" else word for word in arguments]
            if not words or any(
                word not in _OPERATIONS and word not in "()" and not _NUMBER.fullmatch(word) for word in words
            ):
                raise Unclear("expr with a text")
            result = str(_Parser(words).value())
    return result, int(result == "0")


class _Parser:
    """Computes the value of tokens: numbers, operators and brackets."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def value(self) -> int:
        result = self._binary(1)
        if self._at < len(self._tokens):
            raise Unclear("arithmetic")
        return result

    def _binary(self, lowest: int) -> int:
        left = self._operand()
        while self._at < len(self._tokens):
            precedence, compute = _OPERATIONS.get(self._tokens[self._at], (0, operator.add))
            if precedence < lowest:
                break
            self._at += 1
            left = _wrapped(compute(left, self._binary(precedence + 1)))
        return left

    def _operand(self) -> int:
        signs: list[str] = []
        while self._at < len(self._tokens) and self._tokens[self._at] in ("+", "-", "!"):
            signs.append(self._tokens[self._at])
            self._at += 1
        if self._at == len(self._tokens):
            raise Unclear("arithmetic")
        word = self._tokens[self._at]
        self._at += 1
        if word == "(":
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise Unclear("too deep")
            value = self._binary(1)
            if self._at == len(self._tokens) or self._tokens[self._at] != ")":
                raise Unclear("arithmetic")
            self._at += 1
            self._depth -= 1
        elif _NUMBER.fullmatch(word):
            value = int(word)
        else:
            raise Unclear("arithmetic")
        for sign in reversed(signs):
            value = int(not value) if sign == "!" else -value if sign == "-" else value
        return _wrapped(value)


def _wrapped(value: int) -> int:
    return (int(value) + (1 << 63)) % (1 << 64) - (1 << 63)
