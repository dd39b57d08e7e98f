"""Durations and selectors as ``kubectl get`` shows them.

Follows apimachinery's ``pkg/util/duration/duration.go`` and ``pkg/apis/meta/v1/helpers.go`` (v0.36).
"""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


def parse_instant(text: Any) -> datetime.datetime | None:
    """An RFC 3339 time, or None when there is none or it cannot be read."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def human_duration(elapsed: datetime.timedelta) -> str:
    """Two significant units at most: ``90s``, ``5m30s``, ``3h``, ``2d5h``, ``1y30d``."""
    seconds = int(elapsed.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(hours // 24, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    if hours < 24 * 365 * 8:
        return _two(hours // 24 // 365, "y", hours // 24 % 365, "d")
    return f"{hours // 24 // 365}y"


def _two(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


def age(text: Any, now: datetime.datetime) -> str:
    """How long ago a timestamp is; ``<unknown>`` without one."""
    moment = parse_instant(text)
    return UNKNOWN if moment is None else human_duration(now - moment)


def format_labels(labels: Mapping[str, str] | None) -> str:
    """``k=v,k2=v2`` by key, or ``<none>``."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str | None:
    """A LabelSelector as text: empty when it selects everything, None when it is not valid."""
    selector = selector or {}
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator")
        values = ",".join(sorted(expression.get("values") or ()))
        shown = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(operator)
        if shown is None:
            return None
        terms.append((key, shown))
    return ",".join(text for _key, text in sorted(terms, key=lambda term: term[0]))


def format_selector(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector as a cell: ``<none>`` when empty, ``<error>`` when not valid."""
    text = selector_text(selector)
    return "<error>" if text is None else text or NONE


def some(items: Iterable[str], limit: int) -> str:
    """The first few, and how many there are beyond them."""
    listed = list(items)
    text = ",".join(listed[:limit])
    return f"{text} + {len(listed) - limit} more..." if len(listed) > limit else text
