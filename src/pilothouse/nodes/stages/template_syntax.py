"""The lexer of Go templates: text and actions, the words of an action, with positions.

Used by ``template``. Go's rules (``text/template/parse/lex.go``): an action is ``{{ … }}``, ``{{-`` and ``-}}`` also
trim the adjacent white space, ``{{/* … */}}`` is a comment, and a field without a space before it belongs to the
preceding operand.
"""

import json
import re
from collections.abc import Iterator

import msgspec


class TemplateError(ValueError):
    """A template that cannot be parsed or executed. ``line`` and ``column`` start at 1."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line = line
        self.column = column
        self.reason = reason


class Word(msgspec.Struct, frozen=True):
    """One word of an action. ``joined``: there is no space before it."""

    kind: str
    text: str
    position: int
    joined: bool


class Text(msgspec.Struct, frozen=True):
    """Text between actions, already trimmed."""

    text: str


class Action(msgspec.Struct, frozen=True):
    """The content of an action."""

    words: tuple[Word, ...]
    position: int


_WORD = re.compile(
    r"""
        (?P<space>\s+)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<raw>`[^`]*`)
      | (?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?))
      | (?P<field>\.[A-Za-z_]\w*)
      | (?P<variable>\$\w*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>:=|[=|(),.])
    """,
    re.VERBOSE,
)
_LEFT, _RIGHT = "{{", "}}"
_COMMENT = re.compile(r"\{\{(-\s)?/\*.*?\*/(\s-)?\}\}", re.DOTALL)
_RIGHT_TRIM = re.compile(r"\s-\}\}")


def line_and_column(source: str, position: int) -> tuple[int, int]:
    """Line and column of a position."""
    return source.count("\n", 0, position) + 1, position - source.rfind("\n", 0, position)


def error_at(source: str, position: int, reason: str) -> TemplateError:
    """The error at a position."""
    return TemplateError(*line_and_column(source, position), reason)


def split(source: str) -> Iterator[Text | Action]:
    """The parts of a template. Raises ``TemplateError``."""
    position, trim = 0, False
    while True:
        start = source.find(_LEFT, position)
        text = source[position:] if start < 0 else source[position:start]
        trims_left = start >= 0 and source.startswith("-", start + 2) and source[start + 3 : start + 4].isspace()
        text = text.lstrip() if trim else text
        text = text.rstrip() if trims_left else text
        if text:
            yield Text(text)
        if start < 0:
            return
        comment = _COMMENT.match(source, start)
        if comment is not None:
            position, trim = comment.end(), comment[2] is not None
            continue
        words: list[Word] = []
        position, trim = _words(source, start + (3 if trims_left else 2), start, words)
        yield Action(tuple(words), start)


def _words(source: str, position: int, start: int, words: list[Word]) -> tuple[int, bool]:
    """Collect the words of the action that starts at ``start``; returns its end and whether it trims."""
    joined = False
    while True:
        if source.startswith(_RIGHT, position):
            return position + 2, False
        if _RIGHT_TRIM.match(source, position):
            return position + 4, True
        match = _WORD.match(source, position)
        if match is None:
            if position >= len(source):
                raise error_at(source, start, "the action is not closed")
            raise error_at(source, position, f"{source[position]!r} is not supported in an action")
        kind = match.lastgroup or ""
        # ``.5`` and ``1.a`` are not numbers here; a sign is part of a number only where an operand may be.
        if kind != "space":
            words.append(Word(kind, match[0], position, joined))
        # Of several spaces before a closing ``-}}`` the last one belongs to it.
        position = match.end()
        if kind == "space" and source.startswith("-" + _RIGHT, position):
            position -= 1
        joined = kind != "space"


def literal(word: Word) -> str | int | float:
    """The value of a string or number."""
    if word.kind == "raw":
        return word.text[1:-1]
    if word.kind == "string":
        return str(json.loads(word.text)) if "\\" in word.text else word.text[1:-1]
    text = word.text.replace("_", "")
    return float(text) if re.search(r"[.eE]", text) and "x" not in text.lower() else int(text, 0)
