"""Go's ``text/template`` over JSON values: the part of it that stages are written in.

``Template(source)`` reads once and can then be rendered often. There are pipelines, variables, ``if``, ``range``,
``with``, ``break``, ``continue``, parentheses, Go's own functions, and those of ``template_functions``. Not supported,
and rejected when the template is read: ``define``, ``template``, ``block``, method calls, unknown functions.

As in Go with ``map[string]any``, a missing value is not an error: it prints as ``<no value>``, is false, and has no
fields.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pilothouse.nodes.stages.template_functions import CONTEXT, FUNCTIONS, FunctionError, show, truth
from pilothouse.nodes.stages.template_syntax import Action, TemplateError, Text, Word, error_at, literal, split

Evaluate = Callable[["Frame", Any], Any]
Execute = Callable[["Frame", Any, list[str]], None]


class Frame:
    """The state of one rendering: the variables, by slot, and the functions that depend on the cluster."""

    __slots__ = ("context", "slots")

    def __init__(self, slots: list[Any], context: Mapping[str, Callable[..., Any]]) -> None:
        self.slots = slots
        self.context = context


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Template:
    """A parsed template. Raises ``TemplateError`` with the position."""

    def __init__(self, source: str) -> None:
        source = source.strip()  # as KWOK does (``pkg/utils/gotpl/renderer.go``)
        parser = _Parser(source)
        self._body = parser.parse()
        self._slots = parser.slots

    def render(self, data: Any, context: Mapping[str, Callable[..., Any]]) -> str:
        """The text for ``data``. Raises ``TemplateError`` where Go's would fail."""
        out: list[str] = []
        self._body(Frame([data, *[None] * (self._slots - 1)], context), data, out)
        return "".join(out)


class _Parser:
    """Turns the parts into functions. Variables become slots: each declaration has its own."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._parts = split(source)
        self._words: Sequence[Word] = ()
        self._at = 0
        self._position = 0
        self._scope: list[tuple[str, int]] = [("$", 0)]
        self._loops = 0
        self.slots = 1

    def parse(self) -> Execute:
        body, end = self._block()
        if end:
            raise error_at(self._source, self._position, f"unexpected {{{{{end}}}}}")
        return body

    # Actions

    def _block(self) -> tuple[Execute, str]:
        """Everything up to ``end`` or ``else``, and which of the two; the words after ``else`` are not consumed."""
        nodes: list[Execute] = []
        for part in self._parts:
            if isinstance(part, Text):
                nodes.append(_text(part.text))
                continue
            self._words, self._at, self._position = part.words, 0, part.position
            keyword = self._words[0].text if self._words and self._words[0].kind == "name" else ""
            if keyword in ("end", "else"):
                self._at = 1
                if keyword == "end":
                    self._finish()
                return _sequence(nodes), keyword
            nodes.append(self._action(part, keyword))
        return _sequence(nodes), ""

    def _action(self, part: Action, keyword: str) -> Execute:
        if keyword in ("if", "with", "range"):
            self._at = 1
            return self._control(keyword)
        if keyword in ("break", "continue"):
            self._at = 1
            self._finish()
            if not self._loops:
                raise error_at(self._source, part.position, f"{{{{{keyword}}}}} outside {{{{range}}}}")
            return _leave(_Break if keyword == "break" else _Continue)
        if keyword in ("define", "template", "block"):
            raise error_at(self._source, part.position, f"{{{{{keyword}}}}} is not supported")
        if not self._words:
            raise error_at(self._source, part.position, "missing value for command")
        if self._words[0].kind == "variable" and len(self._words) > 1 and self._words[1].text in (":=", "="):
            return self._with_position(part.position, self._assignment())
        return self._with_position(part.position, _print(self._pipeline_to_end()))

    def _assignment(self) -> Execute:
        name, sign = self._words[0], self._words[1].text
        self._at = 2
        value = self._pipeline_to_end()
        slot = self._declare(name.text) if sign == ":=" else self._slot(name)

        def run(frame: Frame, dot: Any, _out: list[str]) -> None:
            frame.slots[slot] = value(frame, dot)

        return run

    def _control(self, keyword: str) -> Execute:
        position, scope = self._position, len(self._scope)
        names = self._range_variables(keyword)
        value = self._value_with_position(position, self._pipeline_to_end())
        slots = [self._declare(name) for name in names]
        self._loops += keyword == "range"
        body, end = self._block()
        self._loops -= keyword == "range"
        otherwise: Execute = _sequence([])
        if end == "else":
            otherwise = self._else(keyword)
        elif not end:
            raise error_at(self._source, position, f"{{{{{keyword}}}}} has no {{{{end}}}}")
        del self._scope[scope:]
        match keyword:
            case "if":
                return _if(value, slots, body, otherwise)
            case "with":
                return _with(value, slots, body, otherwise)
            case _:
                return self._with_position(position, _range(value, slots, body, otherwise))

    def _else(self, keyword: str) -> Execute:
        if self._at < len(self._words):
            word = self._words[self._at].text
            # ``{{else if}}`` is an ``if`` inside the ``else``, closed by the same ``{{end}}``.
            if word in ("if", "with") and word == keyword:
                self._at += 1
                return self._control(word)
            raise self._unexpected()
        position = self._position
        body, end = self._block()
        if end != "end":
            raise error_at(self._source, position, "{{else}} has no {{end}}")
        return body

    def _range_variables(self, keyword: str) -> list[str]:
        words = self._words
        names: list[str] = []
        index = self._at
        while index < len(words) and words[index].kind == "variable":
            names.append(words[index].text)
            index += 1
            if index < len(words) and words[index].text == ",":
                index += 1
                continue
            break
        if not names or index >= len(words) or words[index].text != ":=":
            return []
        if len(names) > (2 if keyword == "range" else 1):
            raise self._unexpected()
        self._at = index + 1
        return names

    # Values

    def _pipeline_to_end(self) -> Evaluate:
        value = self._pipeline()
        self._finish()
        return value

    def _pipeline(self) -> Evaluate:
        value = self._command(None)
        while self._accept("|"):
            value = self._command(value)
        return value

    def _command(self, piped: Evaluate | None) -> Evaluate:
        if self._at >= len(self._words):
            raise error_at(self._source, self._position, "missing value for command")
        word = self._words[self._at]
        if word.kind == "name" and word.text not in ("true", "false", "nil"):
            return self._call(word, piped)
        value = self._operand()
        if piped is not None or (self._at < len(self._words) and self._words[self._at].text not in ("|", ")")):
            raise error_at(self._source, word.position, f"can't give an argument to {word.text!r}")
        return value

    def _call(self, name: Word, piped: Evaluate | None) -> Evaluate:
        self._at += 1
        arguments: list[Evaluate] = []
        while self._at < len(self._words) and self._words[self._at].text not in ("|", ")"):
            arguments.append(self._operand())
        if piped is not None:
            arguments.append(piped)
        return self._value_with_position(name.position, self._function(name, arguments))

    def _function(self, name: Word, arguments: list[Evaluate]) -> Evaluate:
        text = name.text
        if text in ("and", "or"):
            if not arguments:
                raise error_at(self._source, name.position, f"wrong number of arguments for {text}: want at least 1")
            return _either(arguments, stop_at=text == "or")
        if text in CONTEXT:
            return lambda frame, dot: frame.context[text](*[argument(frame, dot) for argument in arguments])
        function = FUNCTIONS.get(text)
        if function is None:
            raise error_at(self._source, name.position, f"function {text!r} is not supported")
        if len(arguments) == 1:
            only = arguments[0]
            return lambda frame, dot: function(only(frame, dot))
        return lambda frame, dot: function(*[argument(frame, dot) for argument in arguments])

    def _operand(self) -> Evaluate:
        word = self._words[self._at]
        self._at += 1
        value: Evaluate
        match word.kind:
            case "string" | "raw" | "number":
                constant = literal(word)
                return lambda _frame, _dot: constant
            case "field":
                value = _field(lambda _frame, dot: dot, word.text[1:])
            case "variable":
                slot = self._slot(word)
                value = lambda frame, _dot: frame.slots[slot]  # noqa: E731  # one of several forms of the same thing
            case "name" if word.text in ("true", "false", "nil"):
                keyword = {"true": True, "false": False, "nil": None}[word.text]
                return lambda _frame, _dot: keyword
            case "name":
                self._at -= 1
                return self._call_alone()
            case _ if word.text == ".":
                value = lambda _frame, dot: dot  # noqa: E731
            case _ if word.text == "(":
                value = self._pipeline()
                if not self._accept(")"):
                    raise error_at(self._source, word.position, "unclosed parenthesis")
            case _:
                self._at -= 1
                raise self._unexpected()
        while self._at < len(self._words) and self._words[self._at].kind == "field" and self._words[self._at].joined:
            value = _field(value, self._words[self._at].text[1:])
            self._at += 1
        return self._value_with_position(word.position, value)

    def _call_alone(self) -> Evaluate:
        """A function as an argument of another one: it gets no arguments."""
        name = self._words[self._at]
        self._at += 1
        return self._value_with_position(name.position, self._function(name, []))

    # Helpers

    def _declare(self, name: str) -> int:
        self._scope.append((name, self.slots))
        self.slots += 1
        return self.slots - 1

    def _slot(self, word: Word) -> int:
        for name, slot in reversed(self._scope):
            if name == word.text:
                return slot
        raise error_at(self._source, word.position, f"undefined variable {word.text!r}")

    def _accept(self, text: str) -> bool:
        accepted = self._at < len(self._words) and self._words[self._at].text == text
        self._at += accepted
        return accepted

    def _finish(self) -> None:
        if self._at < len(self._words):
            raise self._unexpected()

    def _unexpected(self) -> TemplateError:
        if self._at >= len(self._words):
            return error_at(self._source, self._position, "the action ends too early")
        word = self._words[self._at]
        return error_at(self._source, word.position, f"{word.text!r} is not expected here")

    def _with_position(self, position: int, inner: Execute) -> Execute:
        source = self._source

        def run(frame: Frame, dot: Any, out: list[str]) -> None:
            try:
                inner(frame, dot, out)
            except FunctionError as error:
                raise error_at(source, position, str(error)) from error

        return run

    def _value_with_position(self, position: int, inner: Evaluate) -> Evaluate:
        source = self._source

        def run(frame: Frame, dot: Any) -> Any:
            try:
                return inner(frame, dot)
            except FunctionError as error:
                raise error_at(source, position, str(error)) from error
            except TemplateError:
                raise
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                # Usually a missing value where a string is required.
                raise error_at(source, position, f"wrong arguments: {error}") from error

        return run


# Functions


def _text(text: str) -> Execute:
    return lambda _frame, _dot, out: out.append(text)


def _print(value: Evaluate) -> Execute:
    return lambda frame, dot, out: out.append(show(value(frame, dot)))


def _sequence(nodes: list[Execute]) -> Execute:
    if len(nodes) == 1:
        return nodes[0]

    def run(frame: Frame, dot: Any, out: list[str]) -> None:
        for node in nodes:
            node(frame, dot, out)

    return run


def _leave(exception: type[Exception]) -> Execute:
    def run(_frame: Frame, _dot: Any, _out: list[str]) -> None:
        raise exception

    return run


def _field(base: Evaluate, name: str) -> Evaluate:
    def run(frame: Frame, dot: Any) -> Any:
        value = base(frame, dot)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise FunctionError(f"can't evaluate field {name} in {show(value)}")
        return value.get(name)

    return run


def _either(arguments: list[Evaluate], *, stop_at: bool) -> Evaluate:
    def run(frame: Frame, dot: Any) -> Any:
        value = None
        for argument in arguments:
            value = argument(frame, dot)
            if truth(value) is stop_at:
                break
        return value

    return run


def _if(value: Evaluate, slots: list[int], body: Execute, otherwise: Execute) -> Execute:
    def run(frame: Frame, dot: Any, out: list[str]) -> None:
        result = value(frame, dot)
        for slot in slots:
            frame.slots[slot] = result
        (body if truth(result) else otherwise)(frame, dot, out)

    return run


def _with(value: Evaluate, slots: list[int], body: Execute, otherwise: Execute) -> Execute:
    def run(frame: Frame, dot: Any, out: list[str]) -> None:
        result = value(frame, dot)
        for slot in slots:
            frame.slots[slot] = result
        if truth(result):
            body(frame, result, out)
        else:
            otherwise(frame, dot, out)

    return run


def _range(value: Evaluate, slots: list[int], body: Execute, otherwise: Execute) -> Execute:
    def run(frame: Frame, dot: Any, out: list[str]) -> None:
        entries = _rows(value(frame, dot))
        for key, item in entries:
            if slots:
                frame.slots[slots[-1]] = item
            if len(slots) == 2:
                frame.slots[slots[0]] = key
            try:
                body(frame, item, out)
            except _Continue:
                continue
            except _Break:
                break
        if not entries:
            otherwise(frame, dot, out)

    return run


def _rows(value: Any) -> list[tuple[Any, Any]]:
    match value:
        case None:
            return []
        case dict():
            return [(key, value[key]) for key in sorted(value)]
        case list() | tuple():
            return list(enumerate(value))
        case int() if not isinstance(value, bool):
            return [(number, number) for number in range(value)]
        case _:
            raise FunctionError(f"range can't iterate over {show(value)}")
