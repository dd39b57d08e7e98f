"""Interprets shell scripts: their duration, exit code and output. Pure; nothing is executed.

Supported are ``sleep``, ``exit``, ``true``, ``false``, ``echo`` and similar commands, with lists, loops and conditions.
An unknown program makes the script ``Unclear``, unless it runs in the background or in an endless loop. Size, depth,
the number of commands and the text that they produce are limited.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from pilothouse.nodes.shell_arithmetic import arithmetic_value, expr
from pilothouse.nodes.shell_conditions import status_of_test
from pilothouse.nodes.shell_syntax import (
    AndOr,
    Command,
    CommandList,
    For,
    Group,
    If,
    Pipeline,
    Redirection,
    Simple,
    While,
    parse,
)
from pilothouse.nodes.shell_words import COMMANDS, TEXT, VARIABLE, Unclear, Word, as_written, tokens

MAX_SCRIPT_LENGTH = 32_768
MAX_TOKENS = 2_000
"""How many words and operators a script and the scripts that it runs may have together."""
MAX_COMMANDS = 2_000
MAX_TEXT = 1 << 18
"""How many characters all words and lines of output may have after expansion: ``a=$a$a`` doubles a variable."""
_PIECE = 8
"""What a piece of a word counts, in characters: empty words take time, too."""
_EXPANSION = 64
"""The same for arithmetic and commands."""
MAX_SHELL_DEPTH = 5
MAX_SECONDS = 1e9
"""A script that sleeps longer, 31 years, does not end: later times cannot be computed."""
TERMINATION_LOG = "/dev/termination-log"

_STREAMS = ("/dev/stdout", "/dev/stderr", "/proc/1/fd/1", "/proc/1/fd/2", "/proc/self/fd/1", "/proc/self/fd/2")
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", re.ASCII)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SEQUENCE = re.compile(r"\s*seq\s+(?:(\d{1,6})\s+)?(\d{1,6})\s*", re.ASCII)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\"}
_QUICK = frozenset(
    {
        "cd", "chmod", "chown", "cp", "date", "export", "hostname", "id", "local", "ls", "mkdir", "mv", "printenv",
        "pwd", "readonly", "rm", "rmdir", "sync", "touch", "trap", "umask", "uname", "unset", "whoami",
    }
)  # fmt: skip
"""Programs that take no time and mostly succeed."""
_ENDLESS = ("yes", "top")
SHELLS = ("sh", "bash", "ash", "dash")

Value = str | None
"""The text of a word, None if it cannot be determined."""


class Result(msgspec.Struct, frozen=True):
    """The result of a script. ``output``: chunks of text, each with the seconds after the start."""

    seconds: float
    code: int
    output: tuple[tuple[float, str], ...] = ()
    message: str = ""
    """The content of its termination message file."""


def run_script(script: str) -> Result:
    """The result of ``sh -c script``. Raises ``Unclear``."""
    shell = Shell()
    return shell.result(lambda: shell.run_text(script))


def run_words(words: Sequence[Value], environment: Mapping[str, str]) -> Result:
    """The result of a command given as arguments, without a shell. Raises ``Unclear``."""
    shell = Shell(environment=environment)
    return shell.result(lambda: shell.run_program(words, ()))


class _TooMuch(Unclear):
    """More commands or text than the limit."""


class _Forever(Exception):
    """The script does not terminate."""


class _Exit(Exception):
    """The shell exits, with its last status."""


class _Leave(Exception):
    """``break`` or ``continue``."""

    def __init__(self, goes_on: bool) -> None:
        self.goes_on = goes_on


class _Used(msgspec.Struct):
    """What a script has used so far, with all of its shells."""

    commands: int = 0
    text: int = 0
    tokens: int = 0
    unknown_outputs: int = 0
    """Programs that have run and may have printed something."""
    parsed: dict[str, CommandList] = {}
    """The scripts of command substitutions."""


class Shell:
    """One shell, and its state."""

    def __init__(self, parent: "Shell | None" = None, environment: Mapping[str, str] | None = None) -> None:
        self.seconds: float = parent.seconds if parent else 0.0
        self.status = 0
        self._output: list[tuple[float, str]] = parent._output if parent else []
        self._message: list[str] = parent._message if parent else []
        self._used: _Used = parent._used if parent else _Used()
        self._environment: Mapping[str, str] = parent._environment if parent else environment or {}
        self._variables: dict[str, Value] = dict(parent._variables if parent else self._environment)
        self._count(len(self._variables))
        self._exits_on_error: bool = parent._exits_on_error if parent else False
        self._depth: int = parent._depth if parent else 0
        self._background: list[float | None] = []
        """When each of them ends, None if unknown."""

    def result(self, run: Callable[[], object]) -> Result:
        """The result after ``run``."""
        try:
            self._until_exit(run)
            seconds = self.seconds
        except _Forever:
            seconds = math.inf
        ordered = tuple(sorted(self._output, key=lambda chunk: chunk[0]))
        return Result(seconds, self.status if seconds < math.inf else 0, ordered, "".join(self._message))

    def run_text(self, script: str) -> None:
        self._list(self._parse(script), tested=False)

    def _parse(self, script: str) -> CommandList:
        if len(script) > MAX_SCRIPT_LENGTH:
            raise Unclear("too long")
        words = tokens(script, MAX_TOKENS - self._used.tokens)
        self._used.tokens += len(words)
        return parse(words)

    def _until_exit(self, run: Callable[[], object]) -> None:
        try:
            run()
        except _Exit:
            return
        except _Leave:
            return

    # Lists

    def _list(self, commands: CommandList, *, tested: bool) -> None:
        for item, background in commands.items:
            if background:
                self._in_background(item)
            else:
                self._and_or(item, tested=tested)

    def _in_background(self, item: AndOr) -> None:
        beside = Shell(self)
        ends: float | None
        try:
            beside._until_exit(lambda: beside._and_or(item, tested=False))
            ends = beside.seconds
        except _Forever:
            ends = math.inf
        except Unclear:
            ends = None
        self._background.append(ends)
        self.status = 0

    def _and_or(self, item: AndOr, *, tested: bool) -> None:
        self._pipeline(item.first, tested=tested or bool(item.rest))
        for position, (operator, pipeline) in enumerate(item.rest, 1):
            if (self.status == 0) == (operator == "&&"):
                # With -e only the last command of a list can end a shell.
                self._pipeline(pipeline, tested=tested or position < len(item.rest))

    def _pipeline(self, pipeline: Pipeline, *, tested: bool) -> None:
        if len(pipeline.commands) > 1:
            raise Unclear("a pipe")
        tested = tested or pipeline.negated
        self._command(pipeline.commands[0], tested=tested)
        if pipeline.negated:
            self.status = int(self.status == 0)
        elif self.status and self._exits_on_error and not tested:
            raise _Exit

    # Commands

    def _command(self, command: Command, *, tested: bool) -> None:
        self._used.commands += 1
        if self._used.commands > MAX_COMMANDS:
            raise _TooMuch("too many commands")
        match command:
            case Simple():
                self._simple(command)
            case Group(body, apart, redirections):
                self._redirected(redirections, lambda: self._group(body, apart=apart, tested=tested))
            case If(branches):
                self._if(branches, tested=tested)
            case While():
                self._while(command, tested=tested)
            case For():
                self._for(command, tested=tested)

    def _group(self, body: CommandList, *, apart: bool, tested: bool) -> None:
        if not apart:
            self._list(body, tested=tested)
            return
        inner = Shell(self)
        try:
            inner._until_exit(lambda: inner._list(body, tested=tested))
        finally:
            self.seconds, self.status = inner.seconds, inner.status

    def _if(self, branches: tuple[tuple[CommandList | None, CommandList], ...], *, tested: bool) -> None:
        for condition, body in branches:
            if condition is not None:
                self._list(condition, tested=True)
            if condition is None or self.status == 0:
                self._list(body, tested=tested)
                return
        self.status = 0

    def _while(self, loop: While, *, tested: bool) -> None:
        endless = _is_constant(loop.condition, "false" if loop.until else "true")
        last = 0
        while True:
            began = self.seconds
            try:
                self._list(loop.condition, tested=True)
                if (self.status == 0) == loop.until:
                    self.status = last
                    return
                if not self._continues(loop.body, tested=tested):
                    return
            except _TooMuch:
                raise _Forever from None
            except Unclear:
                # Whatever it does in there, it does it again.
                if endless and not loop.leaves:
                    raise _Forever from None
                raise
            last = self.status
            if self.seconds == began and endless:
                raise _Forever

    def _for(self, loop: For, *, tested: bool) -> None:
        self.status = 0
        for word in loop.words:
            for value in self._values(word):
                self._variables[loop.name] = value
                if not self._continues(loop.body, tested=tested):
                    return

    def _continues(self, body: CommandList, *, tested: bool) -> bool:
        try:
            self._list(body, tested=tested)
        except _Leave as leave:
            self.status = 0
            return leave.goes_on
        return True

    def _values(self, word: Word) -> Iterable[str]:
        """The words that a word becomes in a ``for``."""
        kinds = [kind for kind, _text in word.pieces]
        if kinds == [COMMANDS] and not word.quoted and (match := _SEQUENCE.fullmatch(word.pieces[0][1])):
            return map(str, range(int(match[1] or 1), int(match[2]) + 1))
        value = self._expand(word)[0]
        if value is None:
            raise Unclear("words that depend on something")
        if word.quoted:
            return [value]
        if kinds == [COMMANDS]:
            return value.split()
        if "{" in value or VARIABLE in kinds or COMMANDS in kinds:
            raise Unclear("words that depend on something")
        return [value]

    # Words

    def _value(self, word: Word) -> Value:
        return self._expand(word)[0]

    def _expand(self, word: Word) -> tuple[Value, str]:
        """The text of a word, None if it is unknown; and the word with its expansions, in which unknown parts stay as
        they are in the script."""
        self._count(_PIECE * len(word.pieces))
        is_known, shown = True, []
        for kind, text in word.pieces:
            value = text if kind == TEXT else self._piece(kind, text)
            if value is None:
                is_known, value = False, as_written(kind, text)
            shown.append(self._counted(value))
        joined = "".join(shown)
        return joined if is_known else None, joined

    def _argument(self, word: Word) -> tuple[Value, str]:
        """``_expand`` for a command: the output of unquoted commands has no lines. (It is not split into words.)"""
        value, shown = self._expand(word)
        if value is not None and not word.quoted and any(kind == COMMANDS for kind, _text in word.pieces):
            value = shown = " ".join(value.split())
        return value, shown

    def _piece(self, kind: str, text: str) -> Value:
        match kind:
            case "variable":
                return str(self.status) if text == "?" else self._variables.get(text)
            case "arithmetic":
                self._count(_EXPANSION + len(text))
                try:
                    return arithmetic_value(text, self._variables)
                except _TooMuch:
                    raise
                except Unclear:
                    return None
            case "commands":
                self._count(_EXPANSION + len(text))
                return self._output_of(text)
            case _:
                return None

    def _output_of(self, script: str) -> Value:
        """The output of commands, which run in a shell of their own; None if it is unknown."""
        inner = Shell(self)
        inner._output = []
        inner._depth += 1
        unknown_outputs = self._used.unknown_outputs
        try:
            if inner._depth > MAX_SHELL_DEPTH:
                raise Unclear("too deep")
            commands = self._used.parsed.get(script)
            if commands is None:
                commands = self._used.parsed[script] = self._parse(script)
            inner._until_exit(lambda: inner._list(commands, tested=False))
        except _TooMuch:
            raise
        except Unclear:
            return None
        self.seconds, self.status = inner.seconds, inner.status
        if self._used.unknown_outputs > unknown_outputs:
            return None
        return "".join(text for _seconds, text in inner._output).rstrip("\n")

    def _counted(self, text: str) -> str:
        self._count(len(text))
        return text

    def _count(self, characters: int) -> None:
        self._used.text += characters
        if self._used.text > MAX_TEXT:
            raise _TooMuch("too much text")

    # Simple commands

    def _simple(self, command: Simple) -> None:
        if not command.words:
            self.status = 0  # or that of the last command substitution
            for name, word in command.assignments:
                self._variables[name] = self._value(word)
            return
        expanded = [self._argument(word) for word in command.words]
        words, arguments = [value for value, _shown in expanded], [shown for _value, shown in expanded[1:]]
        self._redirected(command.redirections, lambda: self.run_program(words, arguments))

    def _redirected(self, redirections: tuple[Redirection, ...], run: Callable[[], object]) -> None:
        kept = self._output
        self._count(len(redirections))
        for redirection in redirections:
            if redirection.operator.text in ("<", "<&"):
                continue
            target = self._value(redirection.target)
            if redirection.operator.descriptor == "2" or (redirection.operator.text == ">&" and target in ("1", "2")):
                continue
            if target not in _STREAMS:
                self._output = []
            if target == TERMINATION_LOG:
                self._message.clear()
                break
        else:
            target = ""
        try:
            run()
        finally:
            if target == TERMINATION_LOG:
                self._message += [text for _seconds, text in self._output]
            self._output = kept

    def run_program(self, words: Sequence[Value], output: Sequence[str]) -> None:
        """One program with its arguments; ``output`` are the arguments as ``echo`` writes them."""
        first, arguments = words[0], list(words[1:])
        if first is None:
            raise Unclear("a program whose name depends on something")
        self._count(len(words))  # env env env … passes all of them on each time
        name = first.rpartition("/")[2] if first.startswith("/") else first
        output = output or [argument or "" for argument in arguments]
        match name:
            case "true" | ":":
                self.status = 0
            case "false":
                self.status = 1
            case "sleep":
                self._sleep(arguments)
            case "exit":
                self._exit(arguments)
            case "echo":
                self._echo(list(output))
            case "printf":
                self._printf(list(output))
            case "break" | "continue":
                raise _Leave(name == "continue")
            case "set":
                self._set(arguments)
            case "wait":
                self._wait()
            case "exec":
                self._exec(arguments, output[1:])
            case _ if name in SHELLS:
                self._shell(arguments)
            case "[" | "[[" | "test":
                self.status = status_of_test(name, arguments)
            case "expr":
                self._expr(arguments)
            case "seq":
                self._seq(arguments)
            case "env" | "nohup" | "command":
                self._around(arguments, output)
            case "tail" if any(argument in ("-f", "-F", "-nf", "--follow") for argument in arguments):
                raise _Forever
            case _ if name in _ENDLESS:
                raise _Forever
            case _ if name in _QUICK:
                self._used.unknown_outputs += 1
                self.status = 0
            case _:
                raise Unclear(name)

    def _expr(self, arguments: Sequence[Value]) -> None:
        words = [argument for argument in arguments if argument is not None]
        if len(words) < len(arguments):
            raise Unclear("expr with something unknown")
        result, status = expr(words)
        self._write(f"{result}\n")
        self.status = status

    def _seq(self, arguments: Sequence[Value]) -> None:
        match = _SEQUENCE.fullmatch(" ".join(("seq", *(argument or "?" for argument in arguments))))
        if match is None:
            raise Unclear("seq")
        for number in range(int(match[1] or 1), int(match[2]) + 1):
            self._write(f"{number}\n")
        self.status = 0

    def _sleep(self, arguments: Sequence[Value]) -> None:
        seconds = 0.0
        for argument in arguments:
            if argument is None:
                raise Unclear("a duration that depends on something")
            match = _DURATION.fullmatch(argument)
            if match is not None:
                seconds += float(match[1]) * _UNITS[match[2]]
            elif argument in ("infinity", "inf"):
                raise _Forever
            else:
                self.status = 1
                return
        self.seconds += seconds
        if self.seconds > MAX_SECONDS:
            raise _Forever
        self.status = int(not arguments)

    def _exit(self, arguments: Sequence[Value]) -> None:
        if arguments:
            if arguments[0] is None or not arguments[0].isdecimal():
                raise Unclear("an exit code that depends on something")
            self.status = int(arguments[0][-9:]) % 256
        raise _Exit

    def _echo(self, words: list[str]) -> None:
        end, escapes = "\n", False
        while words and words[0] in ("-n", "-e", "-ne", "-en"):
            end = "" if "n" in words[0] else end
            escapes = escapes or "e" in words[0]
            del words[0]
        text = " ".join(words)
        self._write((_unescaped(text) if escapes else text) + end)

    def _printf(self, words: list[str]) -> None:
        text = _unescaped(words[0]) if words else ""
        values = iter(words[1:])
        self._write(re.sub("%s", lambda _found: next(values, ""), text))

    def _write(self, text: str) -> None:
        self._output.append((self.seconds, self._counted(text)))
        self.status = 0

    def _set(self, arguments: Sequence[Value]) -> None:
        for argument in arguments:
            if argument is None or not argument.startswith(("-", "+")):
                break
            if "e" in argument:
                self._exits_on_error = argument.startswith("-")
        self.status = 0

    def _wait(self) -> None:
        for ends in self._background:
            if ends is None:
                raise Unclear("waiting for an unknown program")
            if ends == math.inf:
                raise _Forever
            self.seconds = max(self.seconds, ends)
        self._background.clear()
        self.status = 0

    def _exec(self, arguments: Sequence[Value], output: Sequence[str]) -> None:
        if arguments:
            self.run_program(arguments, output)
            raise _Exit

    def _shell(self, arguments: Sequence[Value]) -> None:
        """Another shell: with ``-c`` it runs a script, without anything it has nothing to read."""
        inner = Shell(self)
        inner._variables, inner._exits_on_error = dict(self._environment), False
        inner._depth += 1
        if inner._depth > MAX_SHELL_DEPTH:
            raise Unclear("too deep")
        runs = False
        rest = list(arguments)
        while rest and rest[0] is not None and rest[0][:1] in "-+" and len(rest[0]) > 1:
            option = rest.pop(0) or ""
            if option in ("-o", "+o"):
                del rest[:1]
            elif not option.startswith("--"):
                runs = runs or "c" in option
                inner._exits_on_error = inner._exits_on_error or "e" in option
        if runs and rest and rest[0] is not None:
            script = rest[0]
            try:
                inner._until_exit(lambda: inner.run_text(script))
            finally:
                self.seconds, self.status = inner.seconds, inner.status
        elif runs or rest:
            raise Unclear("a script that is elsewhere")
        else:
            self.status = 0

    def _around(self, arguments: Sequence[Value], output: Sequence[str]) -> None:
        """A program that runs another one: ``env A=b sh -c …``."""
        at = 0
        while at < len(arguments) and ("=" in (arguments[at] or "") or (arguments[at] or "") in ("-", "-i", "-S")):
            at += 1
        if at < len(arguments):
            self.run_program(arguments[at:], output[at + 1 :])
        else:
            self.status = 0


def _unescaped(text: str) -> str:
    return re.sub(r"\\[ntr\\]", lambda match: _ESCAPES[match[0]], text)


def _is_constant(condition: CommandList, name: str) -> bool:
    """Whether a condition is nothing but ``true`` (or ``:``), or nothing but ``false``."""
    match condition.items:
        case ((AndOr(Pipeline((Simple((), (word,), ()),), False), ()), False),):
            return word.keyword == name or (name == "true" and word.keyword in (":", "1"))
        case _:
            return False
