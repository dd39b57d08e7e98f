"""Helpers for the printers of all kinds: columns, cells, durations, labels and selectors.

After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36), apimachinery's ``pkg/util/duration/duration.go``
and ``pkg/apis/meta/v1/helpers.go`` (v0.36).
"""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.api import meta
    from pilothouse.machinery import go_text

Doc = Mapping[str, Any]
Now = datetime.datetime
Row = list[Any]
Cells = Callable[[Doc, Now], Row]


class Column(msgspec.Struct, frozen=True):
    """A ``TableColumnDefinition``."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """Above 0: only shown with ``-o wide``."""


class Printer(msgspec.Struct, frozen=True, eq=False):
    """Prints the objects of one kind as rows of a Table."""

    columns: Sequence[Column]
    cells: Cells
    """(object, time) → the cells, without those of ``NAME`` and ``AGE``."""
    conditions: Callable[[Doc], list[dict[str, str]] | None] | None = None
    """Returns the conditions of a row."""
    default_annotations: Sequence[str] = ()
    """Annotations that mark the default object of its kind, whose name is printed with ``(default)``."""

    def row(self, value: Doc, now: Now, _size: int = 0) -> Row:
        """The cells of an object, in the order of the columns."""
        cells = self.cells(value, now)
        for position, column in enumerate(self.columns):
            if column is NAME:
                annotations = nested_field(value, "metadata", "annotations") or {} if self.default_annotations else {}
                is_default = any(annotations.get(name) == "true" for name in self.default_annotations)
                cells.insert(position, name_of(value) + (" (default)" if is_default else ""))
            elif column is AGE:
                cells.insert(position, age_of(value, now))
        return cells


NAME = Column("Name", format="name")
AGE = Column("Age")


def columns(*names: str, type_: str = "string", priority: int = 0) -> tuple[Column, ...]:
    return tuple(Column(name, type_, "", "", priority) for name in names)


def wide(*names: str) -> tuple[Column, ...]:
    return columns(*names, priority=1)


def nested_field(value: Doc | None, *path: str) -> Any:
    """The value at a path, or None."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def name_of(value: Doc) -> str:
    return str(nested_field(value, "metadata", "name") or "")


def age_of(value: Doc, now: Now) -> str:
    return age(nested_field(value, "metadata", "creationTimestamp"), now)


def containers_of(pod_spec: Doc | None) -> list[str]:
    """The cells of the Containers and Images columns."""
    containers = nested_field(pod_spec, "containers") or ()
    return [",".join(str(c.get(field, "")) for c in containers) for field in ("name", "image")]


def template_spec_of(value: Doc) -> Doc | None:
    """``spec.template.spec``."""
    template_spec: Doc | None = nested_field(value, "spec", "template", "spec")
    return template_spec


def status_count(value: Doc, field: str) -> int:
    """A number of the status."""
    return nested_field(value, "status", field) or 0


def count_of(*path: str) -> Cells:
    """The number of items of one field."""
    return lambda value, _now: [len(nested_field(value, *path) or ())]


def fields_of(*fields: str) -> Cells:
    """The values of fields, by path (``spec.driver``)."""
    return lambda value, _now: [nested_field(value, *field.split(".")) or "" for field in fields]


NAME_AND_AGE = Printer((NAME, AGE), fields_of())
NAME_AND_CREATION = Printer(
    (NAME, Column("Created At", type="date")),
    lambda value, _now: [nested_field(value, "metadata", "creationTimestamp")],
)
"""The default printer."""


NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


def parse_instant(timestamp: Any) -> datetime.datetime | None:
    """Parse an RFC 3339 time; None if it is missing or invalid."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        instant = datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=datetime.UTC)


def human_duration(elapsed: datetime.timedelta) -> str:
    """``HumanDuration``: at most two units, ``90s``, ``5m30s``, ``3h``, ``2d5h``, ``1y30d``."""
    seconds = int(elapsed.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two_units(hours // 24, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{hours // 24}d"
    if hours < 24 * 365 * 8:
        return _two_units(hours // 24 // 365, "y", hours // 24 % 365, "d")
    return f"{hours // 24 // 365}y"


def _two_units(major: int, major_unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{major_unit}{minor}{minor_unit}" if minor else f"{major}{major_unit}"


def age(timestamp: Any, now: datetime.datetime) -> str:
    """The time since a timestamp; ``<unknown>`` without one."""
    instant = parse_instant(timestamp)
    return UNKNOWN if instant is None else human_duration(now - instant)


def format_labels(labels: Mapping[str, str] | None) -> str:
    """``k=v,k2=v2`` sorted by key, or ``<none>`` (``FormatLabels``)."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str | None:
    """A LabelSelector as string: empty if it selects everything, None if it is invalid."""
    selector = selector or {}
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression.get("key", ""), expression.get("operator")
        values = ",".join(sorted(expression.get("values") or ()))
        requirement = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(operator)
        if requirement is None:
            return None
        terms.append((key, requirement))
    return ",".join(term_text for _key, term_text in sorted(terms, key=lambda term: term[0]))


def format_selector(selector: Mapping[str, Any] | None) -> str:
    """``FormatLabelSelector``: ``<none>`` if it is empty, ``<error>`` if it is invalid."""
    text = selector_text(selector)
    return "<error>" if text is None else text or NONE


def join_with_limit(items: Iterable[str], limit: int) -> str:
    """The first ``limit`` items and the number of the others."""
    values = list(items)
    text = ",".join(values[:limit])
    return f"{text} + {len(values) - limit} more..." if len(values) > limit else text


def print_replicas(value: Doc, _now: Now) -> Row:
    selector = nested_field(value, "spec", "selector")
    is_label_selector = value.get("kind") != "ReplicationController"
    return [
        nested_field(value, "spec", "replicas") or 0,
        status_count(value, "replicas"),
        status_count(value, "readyReplicas"),
        *containers_of(template_spec_of(value)),
        format_selector(selector) if is_label_selector else format_labels(selector),
    ]


REPLICAS = Printer(
    (NAME, *columns("Desired", "Current", "Ready", type_="integer"), AGE, *wide("Containers", "Images", "Selector")),
    print_replicas,
)


def print_role_binding(value: Doc, _now: Now) -> Row:
    role = value.get("roleRef") or {}
    subjects = value.get("subjects") or ()
    names = {
        kind: ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind) for kind in ("User", "Group")
    }
    accounts = ", ".join(
        f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"
    )
    return [f"{role.get('kind', '')}/{role.get('name', '')}", names["User"], names["Group"], accounts]


ROLE_BINDING = Printer((NAME, *columns("Role"), AGE, *wide("Users", "Groups", "ServiceAccounts")), print_role_binding)


def print_admission_policy_binding(value: Doc, _now: Now) -> Row:
    ref = nested_field(value, "spec", "paramRef")
    param_ref = UNSET
    if ref:
        if ref.get("name"):
            param_ref = f"{ref.get('namespace') or '*'}/{ref['name']}"
        elif ref.get("selector") is not None:
            # Upstream prints the Go value (printers/internalversion/printers.go, v1.36).
            param_ref = go_text.print_selector(msgspec.convert(ref["selector"], meta.LabelSelector))
    return [nested_field(value, "spec", "policyName") or "", param_ref]


ADMISSION_POLICY_BINDING = Printer((NAME, *columns("PolicyName", "ParamRef"), AGE), print_admission_policy_binding)


def admission_policy_printer(column: str, field: str) -> Printer:
    """The printer of ValidatingAdmissionPolicies or MutatingAdmissionPolicies; ``column`` has the length of
    ``field``."""

    def cells(value: Doc, _now: Now) -> Row:
        kind = nested_field(value, "spec", "paramKind")
        count = len(nested_field(value, "spec", field) or ())
        return [count, f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else UNSET]

    return Printer((NAME, *columns(column, type_="integer"), *columns("ParamKind"), AGE), cells)


def print_scale(value: Doc, _now: Now) -> Row:
    return [name_of(value), nested_field(value, "spec", "replicas") or 0, status_count(value, "replicas")]


SCALE = Printer((Column("Name"), *columns("Desired", "Available", type_="integer"), AGE), print_scale)
