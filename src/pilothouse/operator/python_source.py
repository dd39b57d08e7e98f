"""Python source as text, formatted as by Black and Ruff: on one line if it fits, else one element per line.

``models`` writes views with it. Pure: values in, text out.
"""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

WIDTH = 120
_STEP = "    "
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Brackets(msgspec.Struct, frozen=True):
    """``head`` with its opening bracket, elements, closing bracket. It can be spread over lines."""

    head: str
    elements: tuple["Expression", ...]
    tail: str


class Named(msgspec.Struct, frozen=True):
    """An element after ``name``, which ends in ``=`` or ``: ``."""

    name: str
    value: "Expression"


Expression = str | Brackets | Named


def flat(expression: Expression) -> str:
    """The expression on one line."""
    match expression:
        case Brackets(head=head, elements=elements, tail=tail):
            return f"{head}{', '.join(map(flat, elements))}{tail}"
        case Named(name=name, value=value):
            return name + flat(value)
        case _:
            return expression


def layout(expression: Expression, *, before: str = "", after: str = "", indent: str = "") -> str:
    """The expression between ``before`` and ``after``, on as many lines as it takes. Names and strings are not
    broken."""
    line = f"{indent}{before}{flat(expression)}{after}"
    match expression:
        case Named(name=name, value=value):
            return layout(value, before=before + name, after=after, indent=indent)
        case Brackets(head=head, elements=elements, tail=tail) if len(line) > WIDTH and elements:
            inner = [layout(element, after=",", indent=indent + _STEP) for element in elements]
            # The comma of a tuple of one is behind its element already.
            return "\n".join([f"{indent}{before}{head}", *inner, f"{indent}{tail.removeprefix(',')}{after}"])
        case _:
            return line


def literal(value: Any) -> Expression:
    """JSON data as Python."""
    match value:
        case str():
            return quoted(value)
        case dict():
            return Brackets("{", tuple(Named(f"{quoted(name)}: ", literal(item)) for name, item in value.items()), "}")
        case list() | tuple():
            return Brackets("[", tuple(map(literal, value)), "]")
        case _:
            return repr(value)


def call(function: str, /, **arguments: Expression) -> Brackets:
    """A call with keyword arguments."""
    return Brackets(f"{function}(", named(arguments), ")")


def named(arguments: Mapping[str, Expression]) -> tuple[Named, ...]:
    """Keyword arguments of a call."""
    return tuple(Named(f"{name}=", value) for name, value in arguments.items())


def subscript(name: str, elements: Iterable[Expression]) -> Brackets:
    """``name[a, b]``."""
    return Brackets(f"{name}[", tuple(elements), "]")


def quoted(text: str) -> str:
    """A string literal, in the quotes that need fewer escapes; double ones if it is all the same."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_escaped(character, quote) for character in text) + quote


def _escaped(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{quote}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def comment(text: str) -> str:
    """A comment of one line, whatever the text is."""
    return f"# {_printable(text)}"


def _printable(text: str) -> str:
    """A line break would end a comment, NUL is invalid, and others change how the text is displayed."""
    return "".join(character if character.isprintable() else _escaped(character, "") for character in text)


def docstring(text: str, indent: str) -> list[str]:
    """The lines of a docstring: the paragraphs of the text, wrapped. None if there is no text."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    width = WIDTH - len(indent) - len('"""')
    paragraphs = [paragraph for paragraph in paragraphs if paragraph]
    if len(paragraphs) == 1 and len(paragraphs[0]) <= width:
        width -= len(' """')  # which end the same line, and must fit
    wrapped = ["\n".join(_wrap(paragraph, width)) for paragraph in paragraphs]
    if not wrapped:
        return []
    lines = "\n\n".join(wrapped).replace("\\", "\\\\").replace('"""', '\\"\\"\\"').split("\n")
    lines = [_printable(line) for line in lines]
    if lines[0].startswith('"'):
        lines[0] = f" {lines[0]}"  # not four quotes
    lines[0] = f'"""{lines[0]}'
    if len(lines) > 1:
        lines.append('"""')
    else:
        lines[0] += ' """' if lines[0].endswith('"') else '"""'
    return [f"{indent}{line}" if line else "" for line in lines]


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
