"""Intended differences of our responses. ``docs/conformance.md`` lists these rows; nothing else may differ."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.apiserver.recorded.comparing import Difference
from tests.apiserver.recorded.own import Translation
from tests.apiserver.recorded.recording import Answer, Exchange


@dataclass(frozen=True)
class Row:
    """An intended difference: its subject, its reason, and a predicate for the differences that it explains."""

    about: str
    reason: str
    explains: Callable[[Difference, Exchange, Answer], bool]


_NAME = re.compile(r'(?<= )"[^"]*"(?= is invalid: )')
_EMPTY = re.compile(r"(?<=[ :])(\{\}|\[\])")


def _shows_empty(difference: Difference, _exchange: Exchange, _actual: Answer) -> bool:
    if difference.path != "message":
        return False
    texts = [_NAME.sub("(name)", Translation.comparable(text)) for text in (difference.expected, difference.actual)]
    return texts[0] != texts[1] and _EMPTY.sub("null", texts[0]) == _EMPTY.sub("null", texts[1])


_OVER_A_MAP = re.compile(r"\[[^]]*[^]0-9][^]]*\]$|\.(labels|annotations|nodeSelector)$|^spec\.metrics\[\d+\]\.\w+$")
"""Fields of causes that upstream finds by iterating over a Go map."""


def _causes(answer: Answer) -> list[tuple[str, str]]:
    body = answer.body if isinstance(answer.body, dict) else {}
    causes = (body.get("details") or {}).get("causes") or ()
    return [(cause.get("field", ""), Translation.comparable(cause.get("message", ""))) for cause in causes]


def _is_in_order_of_a_map(difference: Difference, exchange: Exchange, actual: Answer) -> bool:
    if difference.path != "message" and not difference.path.startswith("body.details.causes."):
        return False
    expected, actual_causes = _causes(exchange.answer), _causes(actual)
    if expected == actual_causes or sorted(expected) != sorted(actual_causes):
        return False
    moved = [one for one, other in zip(expected, actual_causes, strict=True) if one != other]
    return all(_OVER_A_MAP.search(field) or text.startswith("conflict with ") for field, text in moved)


ROWS = (
    Row(
        "order of rules in SelfSubjectRulesReview",
        "Rules are sorted by the names of their bindings. Upstream lists them in the order of a Go map, which changes "
        "from request to request.",
        lambda difference, _exchange, _actual: difference.path.endswith("Rules order"),
    ),
    Row(
        "order of causes for the entries of a map",
        "Causes are sorted by key, and conflicts of server-side apply by manager. Upstream lists them in the order of "
        "a Go map.",
        _is_in_order_of_a_map,
    ),
    Row(
        "empty maps and lists in errors",
        "Empty values in a request are dropped during decoding, so that an error that prints them shows `null` where "
        "upstream shows `{}` or `[]`.",
        _shows_empty,
    ),
)


def explain(difference: Difference, exchange: Exchange, actual: Answer) -> Row | None:
    """The row that explains a difference, if there is one."""
    return next((row for row in ROWS if row.explains(difference, exchange, actual)), None)


def table() -> str:
    """The rows as Markdown, for the page."""
    lines = ["| About | Difference and reason |", "|---|---|"]
    return "\n".join([*lines, *(f"| {row.about} | {row.reason} |" for row in ROWS)]) + "\n"
