"""The words and operators of a shell script, as far as they can be read without running anything. Pure.

``shell_syntax`` parses them into commands. A word whose text depends on unknown values (files, patterns) is kept with
that part marked, because usually it does not matter.
"""

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

TEXT, VARIABLE, ARITHMETIC, COMMANDS, UNKNOWN = "text", "variable", "arithmetic", "commands", "unknown"


class Unclear(Exception):
    """The script uses unsupported features, or depends on unknown values. Its behavior is then not derived."""


class Word(msgspec.Struct, frozen=True):
    """One word. ``pieces`` are (``TEXT``, text), (``VARIABLE``, name), (``ARITHMETIC``, expression), (``COMMANDS``,
    script) or (``UNKNOWN``, as it is written)."""

    pieces: tuple[tuple[str, str], ...]
    quoted: bool = False

    @property
    def keyword(self) -> str:
        """The word as it could be a keyword or the name of a variable, "" for any other."""
        return self.pieces[0][1] if len(self.pieces) == 1 and not self.quoted and self.pieces[0][0] == TEXT else ""


class Operator(msgspec.Struct, frozen=True):
    """A token between words. ``descriptor`` is the number before a redirection, "" for none."""

    text: str
    descriptor: str = ""


Token = Word | Operator

_OPERATORS = ("&&", "||", ";;", ">>", "<<", ">&", "<&", "&>", ">|", ";", "&", "|", "(", ")", "<", ">", "\n")
_ENDS_WORD = " \t\n;&|()<>"
_NAME = re.compile(r"[A-Za-z_]\w*|[?0-9@*#$!-]", re.ASCII)
_BRACED = re.compile(r"\{(\w+|[?@*#$!-])\}", re.ASCII)
_GLOBS = "*?"
_PLAIN = re.compile(r"[^ \t\n;&|()<>'\"\\$`*?]+")
_PLAIN_QUOTED = re.compile(r'[^"\\$`]+')


def tokens(script: str, max_tokens: int) -> list[Token]:
    """The script taken apart, into at most ``max_tokens``. Raises ``Unclear``."""
    found = list(islice(_Reader(script).tokens(), max_tokens + 1))
    if len(found) > max_tokens:
        raise Unclear("too many words")
    return found


class _Reader:
    def __init__(self, script: str) -> None:
        self._script = script
        self._at = 0

    def tokens(self) -> Iterator[Token]:
        while self._at < len(self._script):
            rest = self._script[self._at]
            if rest in " \t\r":
                self._at += 1
            elif self._script.startswith("\\\n", self._at):
                self._at += 2
            elif rest == "#":
                end = self._script.find("\n", self._at)
                self._at = len(self._script) if end < 0 else end
            elif rest in _ENDS_WORD:
                yield self._operator("")
            else:
                yield self._word_or_redirection()

    def _operator(self, descriptor: str) -> Operator:
        text = next(text for text in _OPERATORS if self._script.startswith(text, self._at))
        if text == "<<":
            raise Unclear("a here-document")
        self._at += len(text)
        return Operator(text, descriptor)

    def _word_or_redirection(self) -> Token:
        pieces: list[tuple[str, str]] = []
        quoted = False
        while self._at < len(self._script):
            here = self._script[self._at]
            if here in _ENDS_WORD:
                break
            if here == "'":
                quoted = True
                self._add(pieces, TEXT, self._until("'"))
            elif here == '"':
                quoted = True
                self._read_double_quotes(pieces)
            elif here == "\\":
                quoted = True
                self._add(pieces, TEXT, self._script[self._at + 1 : self._at + 2].replace("\n", ""))
                self._at += 2
            elif here in "$`":
                self._read_expansion(pieces)
            elif here in _GLOBS:
                self._add(pieces, UNKNOWN, here)
                self._at += 1
            else:
                self._read_plain(pieces, _PLAIN)
        word = Word(tuple(pieces), quoted)
        if word.keyword.isdecimal() and self._script[self._at : self._at + 1] in ("<", ">"):
            return self._operator(word.keyword)
        return word

    def _add(self, pieces: list[tuple[str, str]], kind: str, text: str) -> None:
        if kind == TEXT and pieces and pieces[-1][0] == TEXT:
            pieces[-1] = (TEXT, pieces[-1][1] + text)
        else:
            pieces.append((kind, text))

    def _read_plain(self, pieces: list[tuple[str, str]], plain: re.Pattern[str]) -> None:
        match = plain.match(self._script, self._at)
        assert match is not None, "all other characters have been read"
        self._add(pieces, TEXT, match[0])
        self._at = match.end()

    def _until(self, quote: str) -> str:
        end = self._script.find(quote, self._at + 1)
        if end < 0:
            raise Unclear("a quote without an end")
        text = self._script[self._at + 1 : end]
        self._at = end + 1
        return text

    def _read_double_quotes(self, pieces: list[tuple[str, str]]) -> None:
        self._at += 1
        self._add(pieces, TEXT, "")
        while True:
            here = self._script[self._at : self._at + 1]
            if not here:
                raise Unclear("a quote without an end")
            if here == '"':
                self._at += 1
                return
            if here == "\\":
                escaped = self._script[self._at + 1 : self._at + 2]
                self._add(pieces, TEXT, escaped if escaped in '$`"\\' else f"\\{escaped}".replace("\\\n", ""))
                self._at += 2
            elif here in "$`":
                self._read_expansion(pieces)
            else:
                self._read_plain(pieces, _PLAIN_QUOTED)

    def _read_expansion(self, pieces: list[tuple[str, str]]) -> None:
        if self._script[self._at] == "`":
            self._add(pieces, COMMANDS, self._until("`"))
            return
        self._at += 1
        for pattern in (_NAME, _BRACED):
            match = pattern.match(self._script, self._at)
            if match is not None:
                self._at = match.end()
                self._add(pieces, VARIABLE, match[match.lastindex or 0])
                return
        opening = self._script[self._at : self._at + 1]
        if opening not in ("(", "{"):
            self._add(pieces, TEXT, "$")
            return
        if opening == "{":
            self._add(pieces, UNKNOWN, f"${self._bracketed('{', '}')}")
            return
        inner = self._bracketed("(", ")")[1:-1]
        if inner.startswith("(") and inner.endswith(")"):
            self._add(pieces, ARITHMETIC, inner[1:-1])
        else:
            self._add(pieces, COMMANDS, inner)

    def _bracketed(self, opening: str, closing: str) -> str:
        depth, start = 0, self._at
        for at in range(start, len(self._script)):
            depth += (self._script[at] == opening) - (self._script[at] == closing)
            if depth == 0:
                self._at = at + 1
                return self._script[start : self._at]
        raise Unclear("a bracket without an end")


def as_written(kind: str, text: str) -> str:
    """A piece of a word as in the script."""
    match kind:
        case "variable":
            return f"${text}"
        case "arithmetic":
            return f"$(({text}))"
        case "commands":
            return f"$({text})"
        case _:
            return text
