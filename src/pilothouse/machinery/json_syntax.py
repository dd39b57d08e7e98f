"""Syntax errors of JSON, with the messages of Go's ``encoding/json``.

Only called for texts that the fast decoder has rejected; clients see the message. After many values Python's decoder
finds the error, and the message has its position instead of what was expected there.
"""

import json
import re
from typing import Any

from pilothouse.machinery.go_text import quote

MAX_DEPTH = 10_000
MAX_VALUES = 10_000
"""How many values are read by the scan that knows what Go expects: it takes microseconds for each."""

_space = re.compile(rb"[ \t\r\n]*")
_plain = re.compile(rb'[^"\\\x00-\x1f]*')
_digits = re.compile(rb"[0-9]*")

_END = "unexpected end of JSON input"


class _Stop(Exception):
    """Ends the scan with the message."""


def syntax_error(text: bytes) -> str | None:
    """The message, or ``None`` if ``text`` is valid JSON."""
    try:
        _Scanner(text).scan()
    except _Stop as stop:
        return str(stop)
    except _TooMany:
        return _error_far_on(text)
    return None


def _error_far_on(text: bytes) -> str | None:
    decoded = text.decode(errors="replace")
    try:
        # Numbers remain texts: those of thousands of digits are valid.
        json.loads(decoded, parse_float=str, parse_int=str, parse_constant=_reject)
    except json.JSONDecodeError as error:
        if error.pos >= len(decoded.rstrip()) or error.msg.startswith("Unterminated string"):
            return _END
        return f"invalid character {_quoted(decoded[error.pos])} at position {error.pos}"
    except _Stop as stop:
        return str(stop)
    except RecursionError:
        return "exceeded max depth"
    return None


def _reject(word: str) -> Any:
    """NaN and Infinity, which Python accepts."""
    raise _Stop(f"invalid character {_quoted(word[0])} looking for beginning of value")


def _quoted(character: str) -> str:
    if character == "'":
        return r"'\''"
    if character == '"':
        return "'\"'"
    return f"'{quote(character)[1:-1]}'"


class _TooMany(Exception):
    """More than ``MAX_VALUES``."""


class _Scanner:
    """One scan of the text, with a list of open brackets instead of recursion."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._at = 0
        self._values = 0
        self._escapes = 0

    def scan(self) -> None:
        open_: list[int] = []
        self._value(open_)
        while open_:
            character = self._next()
            if open_[-1] == ord("{"):
                if character == ord("}"):
                    open_.pop()
                elif character == ord(","):
                    self._key()
                    self._value(open_)
                else:
                    raise self._invalid(character, "after object key:value pair")
            elif character == ord("]"):
                open_.pop()
            elif character == ord(","):
                self._value(open_)
            else:
                raise self._invalid(character, "after array element")
        self._skip()
        if self._at < len(self._text):
            raise self._invalid(self._text[self._at], "after top-level value")

    def _invalid(self, character: int, context: str) -> _Stop:
        return _Stop(f"invalid character {_quoted(chr(character))} {context}")

    def _skip(self) -> None:
        match = _space.match(self._text, self._at)
        assert match is not None, "matches the empty text"
        self._at = match.end()

    def _take(self) -> int:
        if self._at >= len(self._text):
            raise _Stop(_END)
        self._at += 1
        return self._text[self._at - 1]

    def _next(self) -> int:
        self._skip()
        return self._take()

    def _value(self, open_: list[int]) -> None:
        """Read a value; of a non-empty object or array, only up to and including its first value."""
        while True:
            self._values += 1
            if self._values > MAX_VALUES:
                raise _TooMany
            character = self._next()
            match chr(character):
                case "{":
                    if self._peek() == ord("}"):
                        self._at += 1
                        return
                    self._push(open_, character)
                    self._key()
                    continue
                case "[":
                    if self._peek() == ord("]"):
                        self._at += 1
                        return
                    self._push(open_, character)
                    continue
                case '"':
                    self._string()
                case "t":
                    self._literal("true")
                case "f":
                    self._literal("false")
                case "n":
                    self._literal("null")
                case "-" | "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9":
                    self._number(character)
                case _:
                    raise self._invalid(character, "looking for beginning of value")
            return

    def _push(self, open_: list[int], character: int) -> None:
        open_.append(character)
        if len(open_) > MAX_DEPTH:
            raise _Stop("exceeded max depth")

    def _peek(self) -> int:
        self._skip()
        return self._text[self._at] if self._at < len(self._text) else -1

    def _key(self) -> None:
        character = self._next()
        if character != ord('"'):
            raise self._invalid(character, "looking for beginning of object key string")
        self._string()
        character = self._next()
        if character != ord(":"):
            raise self._invalid(character, "after object key")

    def _string(self) -> None:
        while True:
            match = _plain.match(self._text, self._at)
            assert match is not None, "matches the empty text"
            self._at = match.end()
            character = self._take()
            if character == ord('"'):
                return
            if character != ord("\\"):
                raise self._invalid(character, "in string literal")
            self._escapes += 1
            if self._escapes > MAX_VALUES:
                raise _TooMany
            character = self._take()
            if character == ord("u"):
                for _ in range(4):
                    character = self._take()
                    if chr(character) not in "0123456789abcdefABCDEF":
                        raise self._invalid(character, r"in \u hexadecimal character escape")
            elif chr(character) not in 'bfnrt\\/"':
                raise self._invalid(character, "in string escape code")

    def _literal(self, word: str) -> None:
        for expected in word[1:]:
            character = self._take()
            if character != ord(expected):
                raise self._invalid(character, f"in literal {word} (expecting '{expected}')")

    def _number(self, character: int) -> None:
        if character == ord("-"):
            character = self._take()
            if not chr(character).isdigit():
                raise self._invalid(character, "in numeric literal")
        if character != ord("0"):
            self._run()
        if self._accept_any(b"."):
            self._some_digits("after decimal point in numeric literal")
        if self._accept_any(b"eE"):
            self._accept_any(b"+-")
            self._some_digits("in exponent of numeric literal")

    def _accept_any(self, characters: bytes) -> bool:
        accepted = self._at < len(self._text) and self._text[self._at] in characters
        self._at += accepted
        return accepted

    def _run(self) -> None:
        match = _digits.match(self._text, self._at)
        assert match is not None, "matches the empty text"
        self._at = match.end()

    def _some_digits(self, context: str) -> None:
        character = self._take()
        if not 0x30 <= character <= 0x39:
            raise self._invalid(character, context)
        self._run()
