"""URLs, regular expressions and lists (k8s.io/apiserver ``pkg/cel/library/{urls,regex,lists}.go``, v0.36)."""

import re
from itertools import pairwise
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from pilothouse.cel.tagged import CallError, Function, tagged, text_of
from pilothouse.machinery.patterns import PatternError, compiled

_URL = "kubernetes.URL"


def _parse_url(text: str) -> SplitResult:
    """Parse what Go's ``url.ParseRequestURI`` accepts: an absolute URL or an absolute path."""
    text_error = CallError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    if any(letter < " " or letter == "\x7f" for letter in text):
        raise text_error
    try:
        # Upstream parses twice: as the URI of a request, which has no fragment, and then as any URL.
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise text_error from None
    if not parts.scheme and not text.startswith("/"):
        raise text_error
    return parts


def _url(text: str) -> dict[str, Any]:
    _parse_url(text)
    return tagged("URL", text)


def is_url(text: str) -> bool:
    try:
        _parse_url(text)
    except CallError:
        return False
    return True


def _parts(value: dict[str, Any]) -> SplitResult:
    return _parse_url(text_of(value))


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _hostname(parts: SplitResult) -> str:
    host = _host(parts)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(parts: SplitResult) -> str:
    after = _host(parts).rpartition("]")[2]
    return after.rpartition(":")[2] if ":" in after else ""


def _expression(text: str) -> Any:
    try:
        return compiled(text)
    except PatternError as error:
        raise CallError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    match = _expression(pattern).search(text)
    return match[0] if match is not None else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    matches = [match[0] for match in _expression(pattern).finditer(text)]
    return matches if limit < 0 else matches[:limit]


def _is_sorted(items: list[Any]) -> bool:
    return not any(later < earlier for earlier, later in pairwise(items))


def _smallest(items: list[Any]) -> Any:
    if not items:
        raise CallError("min called on empty list")
    return min(items)


def _largest(items: list[Any]) -> Any:
    if not items:
        raise CallError("max called on empty list")
    return max(items)


def _index(items: list[Any], item: Any) -> int:
    return next((position for position, item_position in enumerate(items) if item_position == item), -1)


def _last_index(items: list[Any], item: Any) -> int:
    return next((position for position in range(len(items) - 1, -1, -1) if items[position] == item), -1)


_LIST = ("list", "dyn")
_SUMMABLE = ("int", "uint", "double", "duration")
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
"""``summableTypes`` and ``comparableTypes`` of ``lists.go``: the results have the types of the elements."""
_UNESCAPED = "/:@$&+,;=-._~"
_VALID_PATH = re.compile(r"(?:[A-Za-z0-9!$&'()*+,;=:@\[\]/._~-]|%[0-9A-Fa-f]{2})*")


def _escaped_path(path: str) -> str:
    """``EscapedPath``: the path as it was written if that is valid."""
    return path if _VALID_PATH.fullmatch(path) else quote(unquote(path), safe=_UNESCAPED)


FUNCTIONS = (
    Function("url", ("string",), _URL, _url, member=False),
    Function("isURL", ("string",), "bool", is_url, member=False),
    Function("getScheme", (_URL,), "string", lambda value: _parts(value).scheme),
    Function("getHost", (_URL,), "string", lambda value: _host(_parts(value))),
    Function("getHostname", (_URL,), "string", lambda value: _hostname(_parts(value))),
    Function("getPort", (_URL,), "string", lambda value: _port(_parts(value))),
    Function("getEscapedPath", (_URL,), "string", lambda value: _escaped_path(_parts(value).path)),
    Function(
        "getQuery",
        (_URL,),
        ("map", ("list", "string")),
        lambda value: parse_qs(_parts(value).query, keep_blank_values=True),
    ),
    Function(
        "jsonpatch.escapeKey",
        ("string",),
        "string",
        lambda key: key.replace("~", "~0").replace("/", "~1"),
        member=False,
    ),
    Function("find", ("string", "string"), "string", _find),
    Function("findAll", ("string", "string"), ("list", "string"), _find_all),
    Function("findAll", ("string", "string", "int"), ("list", "string"), _find_all),
    *(Function("isSorted", (("list", kind),), "bool", _is_sorted) for kind in _COMPARABLE),
    *(Function("sum", (("list", kind),), kind, sum) for kind in _SUMMABLE),
    *(Function("min", (("list", kind),), kind, _smallest) for kind in _COMPARABLE),
    *(Function("max", (("list", kind),), kind, _largest) for kind in _COMPARABLE),
    Function("indexOf", (_LIST, "dyn"), "int", _index),
    Function("lastIndexOf", (_LIST, "dyn"), "int", _last_index),
)
