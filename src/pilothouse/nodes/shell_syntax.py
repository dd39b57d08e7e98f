"""Parses a shell script into commands for ``shell``. Pure.

Simple commands with assignments and redirections, lists, pipelines, groups, subshells, ``if``, ``while``, ``until`` and
``for``. Anything else (functions, ``case``, here-documents) makes a script unclear.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from pilothouse.nodes.shell_words import TEXT, Operator, Token, Unclear, Word

_MAX_DEPTH = 20
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=", re.ASCII)
_REDIRECTIONS = (">", ">>", ">|", "<", ">&", "<&", "&>")
_RESERVED = ("case", "function", "select", "[[", "coproc", "time")
_LEAVES = ("break", "exit", "return", "exec", "kill")
_CLOSING = ("then", "else", "elif", "fi", "do", "done", "}", "esac")


class Redirection(msgspec.Struct, frozen=True):
    """A redirection of input or output."""

    operator: Operator
    target: Word


class Simple(msgspec.Struct, frozen=True):
    """A command with its words."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...] = ()


class Pipeline(msgspec.Struct, frozen=True):
    """Commands that read each other's output; ``negated`` by ``!``."""

    commands: tuple["Command", ...]
    negated: bool = False


class AndOr(msgspec.Struct, frozen=True):
    """Pipelines with ``&&`` or ``||`` between them."""

    first: Pipeline
    rest: tuple[tuple[str, Pipeline], ...] = ()


class CommandList(msgspec.Struct, frozen=True):
    """Commands in sequence; those in the background run in parallel."""

    items: tuple[tuple[AndOr, bool], ...]


class Group(msgspec.Struct, frozen=True):
    """``{ …; }``, or with ``apart`` ``( … )``."""

    body: CommandList
    apart: bool
    redirections: tuple[Redirection, ...] = ()


class If(msgspec.Struct, frozen=True):
    """Conditions with their branches; the last one may have no condition."""

    branches: tuple[tuple[CommandList | None, CommandList], ...]


class While(msgspec.Struct, frozen=True):
    """``while``, or with ``until`` its opposite."""

    condition: CommandList
    body: CommandList
    until: bool
    leaves: bool
    """Whether the body contains something that could end the loop, at any depth."""


class For(msgspec.Struct, frozen=True):
    """A loop over words."""

    name: str
    words: tuple[Word, ...]
    body: CommandList


Command = Simple | Group | If | While | For


def parse(tokens: Sequence[Token]) -> CommandList:
    """Parse the whole script. Raises ``Unclear``."""
    parser = _Parser(tokens)
    script = parser.sequence(())
    if not parser.at_end:
        raise Unclear("a word or an operator in the wrong place")
    return script


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._leaving = [at for at, token in enumerate(tokens) if isinstance(token, Word) and token.keyword in _LEAVES]

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    # Tokens

    def _operator(self) -> str:
        token = self._tokens[self._at] if not self.at_end else None
        return token.text if isinstance(token, Operator) else ""

    def _keyword(self) -> str:
        token = self._tokens[self._at] if not self.at_end else None
        return token.keyword if isinstance(token, Word) else ""

    def _is_word(self) -> bool:
        return not self.at_end and isinstance(self._tokens[self._at], Word)

    def _word(self) -> Word:
        token = self._tokens[self._at] if not self.at_end else None
        if not isinstance(token, Word):
            raise Unclear("a word is missing")
        self._at += 1
        return token

    def _expect(self, keyword: str) -> None:
        if self._keyword() != keyword:
            raise Unclear(f"{keyword!r} is missing")
        self._at += 1

    def _skip_lines(self) -> None:
        while self._operator() == "\n":
            self._at += 1

    # Lists

    def sequence(self, ends: tuple[str, ...]) -> CommandList:
        """Commands up to one of these keywords, to ``)``, or to the end."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unclear("too deep")
        items: list[tuple[AndOr, bool]] = []
        self._skip_lines()
        while not self.at_end and self._keyword() not in ends and self._operator() != ")":
            item = self._and_or()
            separator = self._operator()
            if separator in (";", "&", "\n"):
                self._at += 1
            elif separator != ")" and not self.at_end:
                raise Unclear(f"{separator!r} in the wrong place")
            items.append((item, separator == "&"))
            self._skip_lines()
        self._depth -= 1
        return CommandList(tuple(items))

    def _and_or(self) -> AndOr:
        first = self._pipeline()
        rest: list[tuple[str, Pipeline]] = []
        while (operator := self._operator()) in ("&&", "||"):
            self._at += 1
            self._skip_lines()
            rest.append((operator, self._pipeline()))
        return AndOr(first, tuple(rest))

    def _pipeline(self) -> Pipeline:
        negated = self._keyword() == "!"
        if negated:
            self._at += 1
        commands = [self._command()]
        while self._operator() == "|":
            self._at += 1
            self._skip_lines()
            commands.append(self._command())
        return Pipeline(tuple(commands), negated)

    # Commands

    def _command(self) -> Command:
        keyword = self._keyword()
        if keyword in _RESERVED or keyword in _CLOSING:
            raise Unclear(f"{keyword!r}")
        if self._operator() == "(":
            self._at += 1
            body = self._body(())
            if self._operator() != ")":
                raise Unclear("')' is missing")
            self._at += 1
            return Group(body, True, self._redirections())
        match keyword:
            case "{":
                self._at += 1
                body = self._body(("}",))
                self._expect("}")
                return Group(body, False, self._redirections())
            case "if":
                return self._if()
            case "while" | "until":
                self._at += 1
                condition = self._body(("do",))
                began = self._at
                body = self._do()
                leaves = bisect_left(self._leaving, began) < bisect_left(self._leaving, self._at)
                return While(condition, body, keyword == "until", leaves)
            case "for":
                return self._for()
        return self._simple()

    def _body(self, ends: tuple[str, ...]) -> CommandList:
        body = self.sequence(ends)
        if not body.items:
            raise Unclear("a command is missing")
        return body

    def _do(self) -> CommandList:
        self._expect("do")
        body = self._body(("done",))
        self._expect("done")
        if self._redirections():
            raise Unclear("a loop that reads or writes elsewhere")
        return body

    def _if(self) -> If:
        branches: list[tuple[CommandList | None, CommandList]] = []
        while self._keyword() in ("if", "elif"):
            self._at += 1
            condition = self._body(("then",))
            self._expect("then")
            branches.append((condition, self._body(("elif", "else", "fi"))))
        if self._keyword() == "else":
            self._at += 1
            branches.append((None, self._body(("fi",))))
        self._expect("fi")
        return If(tuple(branches))

    def _for(self) -> For:
        self._at += 1
        name = self._word().keyword
        self._skip_lines()
        self._expect("in")
        words: list[Word] = []
        while self._is_word():
            words.append(self._word())
        if self._operator() == ";":
            self._at += 1
        self._skip_lines()
        return For(name, tuple(words), self._do())

    def _simple(self) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirections: list[Redirection] = []
        while not self.at_end:
            redirections += self._redirections()
            if not self._is_word():
                break
            word = self._word()
            assigned = None if words else _assignment(word)
            if assigned is not None:
                assignments.append(assigned)
            else:
                words.append(word)
        if self._operator() == "(":
            raise Unclear("a function")
        if not (assignments or words or redirections):
            raise Unclear("a command is missing")
        return Simple(tuple(assignments), tuple(words), tuple(redirections))

    def _redirections(self) -> tuple[Redirection, ...]:
        redirections: list[Redirection] = []
        while not self.at_end:
            token = self._tokens[self._at]
            if not isinstance(token, Operator) or token.text not in _REDIRECTIONS:
                break
            self._at += 1
            redirections.append(Redirection(token, self._word()))
        return tuple(redirections)


def _assignment(word: Word) -> tuple[str, Word] | None:
    if not word.pieces or word.pieces[0][0] != TEXT:
        return None
    match = _ASSIGNMENT.match(word.pieces[0][1])
    if match is None:
        return None
    first = (TEXT, word.pieces[0][1][match.end() :])
    return match[1], Word((first, *word.pieces[1:]), True)
