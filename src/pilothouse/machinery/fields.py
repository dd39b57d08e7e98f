"""Field selectors: ``metadata.name=x,status.phase!=Running``.

Grammar and error texts are upstream's (apimachinery 0.36, ``pkg/fields/selector.go``). The paths that a kind supports
are defined by the API server; here a path is only passed to a getter.
"""

import re
from collections.abc import Callable

import msgspec

_OPERATOR = re.compile("!=|==|=").search


_FEW = 8


class FieldSelectorError(ValueError):
    """A field selector that upstream rejects, with upstream's message."""


class FieldTerm(msgspec.Struct, frozen=True):
    """One requirement. ``operator`` is ``=`` or ``!=``."""

    path: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.path}{self.operator}{escape_value(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True):
    """Requirements that must all match, in the order of their text."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.terms

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether an object whose fields ``get`` returns is selected. ``get`` returns "" for missing fields."""
        for term in self.terms:  # noqa: SIM110  # half of what ``all`` takes
            if (get(term.path) == term.value) is not (term.operator == "="):
                return False
        return True

    def compiled(self) -> Callable[[Callable[[str], str]], bool]:
        """``matches`` with one lookup per path instead of one per term."""
        if len(self.terms) <= _FEW:
            return self.matches
        desired: dict[str, set[str]] = {}
        excluded: dict[str, set[str]] = {}
        for term in self.terms:
            (desired if term.operator == "=" else excluded).setdefault(term.path, set()).add(term.value)

        def matches(get: Callable[[str], str]) -> bool:
            return all(values == {get(path)} for path, values in desired.items()) and not any(
                get(path) in values for path, values in excluded.items()
            )

        return matches

    def exact(self, path: str) -> str | None:
        """The one value that ``path`` must have, if the selector requires it."""
        for term in self.terms:
            if term.path == path and term.operator == "=":
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector; empty terms are skipped. Raises ``FieldSelectorError``."""
    terms = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        path, operator, value = _split_term(text, part)
        terms.append(FieldTerm(path, "!=" if operator == "!=" else "=", _unescape(value)))
    return FieldSelector(tuple(terms))


def escape_value(value: str) -> str:
    """Escape ``value`` for a field selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _split_terms(text: str) -> list[str]:
    if "\\" not in text:
        return text.split(",")
    terms, start, escaped = [], 0, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:index])
            start = index + 1
    terms.append(text[start:])
    return terms


def _split_term(selector: str, term: str) -> tuple[str, str, str]:
    # The first operator splits, and "!=" and "==" take precedence over the "=" they contain.
    match = _OPERATOR(term)
    if match is None:
        raise FieldSelectorError(f"invalid selector: '{selector}'; can't understand '{term}'")
    return term[: match.start()], match[0], term[match.end() :]


def _unescape(value: str) -> str:
    if not any(c in value for c in "\\,="):
        return value
    result, escaped = [], False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise FieldSelectorError(f"invalid field selector: invalid escape sequence: \\{character}")
            result.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            # Upstream prints the code point of the character.
            raise FieldSelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            result.append(character)
    if escaped:
        raise FieldSelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(result)
