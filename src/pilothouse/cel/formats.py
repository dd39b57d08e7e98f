"""``format.dns1123Label()``, ``format.named(name)`` and ``.validate(text)`` (k8s.io/apiserver
``pkg/cel/library/format.go``, v0.36).

The last two return optional values, which the library does not accept from our functions. So the expression is
rewritten before it is compiled: an unknown format is an empty map, which ``optional.ofNonZeroValue`` converts to none;
errors are a list of at most one list, of which ``[?0]`` takes the first.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.cel.tagged import Function, tagged, text_of
from pilothouse.cel.texts import is_url
from pilothouse.machinery.names import (
    dns_1035_label_errors,
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from pilothouse.machinery.string_formats import FORMATS


def _unprefixed(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """A prefix may end with a dash."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") and len(text) > 1 else text)


def _schema_format(name: str, format_name: str) -> Callable[[str], list[str]]:
    check = FORMATS[name]
    return lambda text: [] if check(text) else [f"does not match the {format_name} format"]


_CHECKS: Mapping[str, Callable[[str], list[str]]] = {
    "dns1123Label": dns_label_errors,
    "dns1123Subdomain": dns_subdomain_errors,
    "dns1035Label": dns_1035_label_errors,
    "dns1123LabelPrefix": _unprefixed(dns_label_errors),
    "dns1123SubdomainPrefix": _unprefixed(dns_subdomain_errors),
    "dns1035LabelPrefix": _unprefixed(dns_1035_label_errors),
    "qualifiedName": qualified_name_errors,
    "labelValue": label_value_errors,
    "uri": lambda text: [] if is_url(text) else [f'parse "{text}": invalid URI for request'],
    "uuid": _schema_format("uuid", "UUID"),
    "byte": lambda text: [] if FORMATS["byte"](text) else ["invalid base64"],
    "date": lambda text: [] if FORMATS["date"](text) else ["invalid date"],
    "datetime": lambda text: [] if FORMATS["datetime"](text) else ["invalid datetime"],
}


def _named(name: str) -> dict[str, Any]:
    return tagged("NamedFormat", name) if name in _CHECKS else {}


def _errors(form: dict[str, Any], text: str) -> list[list[str]]:
    errors = _CHECKS[text_of(form)](text)
    return [errors] if errors else []


_FORMAT = "kubernetes.NamedFormat"
FUNCTIONS = (
    Function("kubernetes.format", ("string",), _FORMAT, _named, member=False),
    Function("kubernetes.namedFormat", ("string",), _FORMAT, _named, member=False),
    Function("kubernetesErrors", (_FORMAT, "string"), ("list", ("list", "string")), _errors),
)

_CONSTANT = re.compile(r"(?<![.\w])format\s*\.\s*(\w+)\s*\(\s*\)")
_NAMED = re.compile(r"(?<![.\w])format\s*\.\s*named\s*\(")
_VALIDATE = re.compile(r"\.\s*validate\s*\(")
_TOKEN = re.compile(
    r"""[rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|[()]|[^"'()/rRbB]+|.""",
    re.DOTALL,
)


def with_formats(source: str) -> str:
    """Rewrite the calls of formats in an expression."""
    if "format" in source:
        source = _replaced(source, _CONSTANT, _constant)
        source = _calls_replaced(source, _NAMED, "optional.ofNonZeroValue(kubernetes.namedFormat(", "))")
    if "validate" in source:
        source = _calls_replaced(source, _VALIDATE, ".kubernetesErrors(", ")[?0]")
    return source


def _constant(match: re.Match[str]) -> str:
    return f'kubernetes.format("{match[1]}")' if match[1] in _CHECKS else match[0]


def _replaced(source: str, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str]) -> str:
    return pattern.sub(lambda found: by(found) if _is_code(source, found.start()) else found[0], source)


def _calls_replaced(source: str, pattern: re.Pattern[str], head: str, tail: str) -> str:
    """Replace begin and end of each call whose begin matches the pattern."""
    at = 0
    while (match := pattern.search(source, at)) is not None:
        end = _closing(source, match.end())
        if end < 0 or not _is_code(source, match.start()):
            at = match.end()
            continue
        source = source[: match.start()] + head + source[match.end() : end] + tail + source[end + 1 :]
        at = match.start() + len(head)
    return source


def _closing(source: str, at: int) -> int:
    """The index of the closing parenthesis for the one open before ``at``; -1 if there is none."""
    depth = 1
    for token in _TOKEN.finditer(source, at):
        depth += (token[0] == "(") - (token[0] == ")")
        if not depth:
            return token.start()
    return -1


def _is_code(source: str, at: int) -> bool:
    """Whether an index is outside of strings and comments."""
    return all(
        not token.start() < at < token.end() or token[0][:1] not in "\"'/rRbB" for token in _TOKEN.finditer(source)
    )
