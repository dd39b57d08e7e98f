"""Text of objects for a terminal, which would take some of it for commands."""

import re

_controls = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_breaks = re.compile(r"[\f\n\r]")


def escaped(text: str) -> str:
    """The text on one line without control characters: escape is ``^[``, as kubectl prints it (cli-runtime
    ``pkg/printers/terminal.go``), others are as in Python."""
    return _controls.sub(lambda found: "^[" if found[0] == "\x1b" else repr(found[0])[1:-1], text)


def cell(text: str) -> str:
    """The text as a cell of a table: its first line (cli-runtime ``pkg/printers/tableprinter.go``)."""
    first = _breaks.split(text, maxsplit=1)[0]
    return escaped(first) + ("..." if len(first) < len(text) else "")
