"""``format.dns1123Label().validate(text)`` (k8s.io/apiserver ``pkg/cel/library/format.go``, v0.36).

It gives an optional list of errors, and the library takes no optional from a function of ours. So the expression is
rewritten before it is compiled, to a list that becomes optional: ``optional.ofNonZeroValue(…)``. ``format.named()`` is
not there.
"""

import re
from collections.abc import Callable, Mapping

from pilothouse.apiserver.cel.tagged import CallError, Function
from pilothouse.apiserver.cel.texts import is_url
from pilothouse.apiserver.customresources.formats import FORMATS
from pilothouse.machinery.names import (
    dns_1035_label_errors,
    dns_label_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)


def _unprefixed(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """A prefix may end with a dash, since something follows."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") and len(text) > 1 else text)


def _schema_format(name: str, shown: str) -> Callable[[str], list[str]]:
    check = FORMATS[name]
    return lambda text: [] if check(text) else [f"does not match the {shown} format"]


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


def _errors(name: str, text: str) -> list[str]:
    check = _CHECKS.get(name)
    if check is None:
        raise CallError(f"unknown format: {name}")
    return check(text)


FUNCTIONS = (Function("kubernetes.formatErrors", ("string", "string"), ("list", "string"), _errors, member=False),)

_CALL = re.compile(r"\bformat\s*\.\s*(\w+)\s*\(\s*\)\s*\.\s*validate\s*\(")
_TOKEN = re.compile(
    r"""[rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|[()]|[^"'()/rRbB]+|.""",
    re.DOTALL,
)


def with_formats(source: str) -> str:
    """The expression with its calls of formats rewritten."""
    at = 0
    while (found := _CALL.search(source, at)) is not None:
        end = _closing(source, found.end())
        if found[1] not in _CHECKS or end < 0 or not _is_code(source, found.start()):
            at = found.end()
            continue
        head = f'optional.ofNonZeroValue(kubernetes.formatErrors("{found[1]}", '
        source = source[: found.start()] + head + source[found.end() : end] + "))" + source[end + 1 :]
        at = found.start() + len(head)
    return source


def _closing(source: str, at: int) -> int:
    """Where the parenthesis closes that was open before ``at``; -1 when it does not."""
    depth = 1
    for token in _TOKEN.finditer(source, at):
        depth += (token[0] == "(") - (token[0] == ")")
        if not depth:
            return token.start()
    return -1


def _is_code(source: str, at: int) -> bool:
    """Whether the place is in no string and no comment."""
    return all(
        not token.start() < at < token.end() or token[0][:1] not in "\"'/rRbB" for token in _TOKEN.finditer(source)
    )
