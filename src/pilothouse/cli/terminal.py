"""Escapes text of objects for a terminal, which would interpret control characters."""

import json
import re

_controls = re.compile(
    r"[\x00-\x1f\x7f-\x9f"
    # Invisible characters and bidirectional controls.
    r"\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff"
    # Lone surrogates, which cannot be encoded.
    r"\ud800-\udfff]"
)
_breaks = re.compile(r"[\f\n\r]")


def escaped(text: str) -> str:
    """The text on one line without control and invisible characters: escape is ``^[``, as kubectl prints it
    (cli-runtime ``pkg/printers/terminal.go``), others are as in Python."""
    return _controls.sub(lambda found: "^[" if found[0] == "\x1b" else repr(found[0])[1:-1], text)


def escaped_json(text: str) -> str:
    """The JSON with such characters in its strings escaped as ``\u202e``. Line breaks between tokens are kept."""
    return _controls.sub(lambda found: found[0] if found[0] == "\n" else _json_escape(found[0]), text)


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1] if character > "\x7f" else f"\\u{ord(character):04x}"


def cell(text: str) -> str:
    """The text as a cell of a table: its first line (cli-runtime ``pkg/printers/tableprinter.go``)."""
    first = _breaks.split(text, maxsplit=1)[0]
    return escaped(first) + ("..." if len(first) < len(text) else "")
