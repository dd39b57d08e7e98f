"""``Table``: what ``kubectl get`` prints, made on the server.

Columns of the built-in kinds are data (``data/tables.json``, as kube-apiserver v1.36.2 serves them), their cells are
functions in ``rows`` and ``more_rows``; columns of custom kinds come from their definition.
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.apiserver import errors
from pilothouse.apiserver.presentation.more_rows import MORE_ROWS
from pilothouse.apiserver.presentation.partial import metadata_of, partial_object
from pilothouse.apiserver.presentation.pod_row import pod_conditions
from pilothouse.apiserver.presentation.printer_columns import cell
from pilothouse.apiserver.presentation.rows import ROWS, name_and_age, name_of
from pilothouse.apiserver.resources import ResourceInfo

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_INCLUDES = ("None", "Metadata", "Object", "")
_CREATED = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_WITHOUT_TABLE = ("authentication.k8s.io", "authorization.k8s.io")

Cells = Callable[[Any, datetime.datetime], list[Any]]


class Column(msgspec.Struct, frozen=True):
    """One column definition as it stands in a Table."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


_BEHIND_GATES = {
    "resource.k8s.io/v1alpha3 ResourcePoolStatusRequest": [
        ("Name", "string", "name", 0),
        *((name, "string", "", 0) for name in ("Driver", "Total", "Available", "Allocated", "Unavailable")),
        *((name, "string", "", 0) for name in ("Errors", "Pools", "Status", "Completed")),
    ],
}
"""Columns of kinds that were not served where the data comes from. Of ResourcePoolStatusRequests: KEP-5677."""


@cache
def _built_in_columns() -> dict[str, bytes]:
    text = packaged("apiserver/data/tables.json")
    rows = msgspec.json.decode(text, type=dict[str, list[tuple[str, str, str, int]]])
    rows |= _BEHIND_GATES
    return {
        kind: _encode([Column(name, type_, format_, "", priority) for name, type_, format_, priority in columns])
        for kind, columns in rows.items()
    }


_DEFAULT_COLUMNS = _encode([Column("Name", format="name"), Column("Age")])


def has_table(info: ResourceInfo) -> bool:
    """Whether objects of the resource can be shown as a table. Reviews and bindings have none."""
    return info.group not in _WITHOUT_TABLE and info.kind != "Binding"


def check_include(value: str) -> str:
    """The ``includeObject`` query parameter, checked. Raises the 400 that upstream answers."""
    if value not in _INCLUDES:
        raise errors.bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {errors.shown(value)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return value or "Metadata"


class TableMaker:
    """Makes the tables of one resource, or of a subresource of another kind (``kind``: apiVersion and kind)."""

    def __init__(self, info: ResourceInfo, kind: str = "") -> None:
        key = kind or f"{info.api_version} {info.kind}"
        if info.custom is not None and key == f"{info.api_version} {info.kind}":
            self.columns, self._cells = _custom_columns(info)
        else:
            self.columns = _built_in_columns().get(key, _DEFAULT_COLUMNS)
            self._cells = ROWS.get(key) or MORE_ROWS.get(key) or name_and_age
        self._is_pod = key == "v1 Pod"

    def row(self, value: bytes, include: str, now: datetime.datetime, version: str = "v1") -> bytes:
        """One row for an object that begins with kind and apiVersion."""
        document = _decode(value)
        conditions = pod_conditions(document) if self._is_pod else None
        shown = value if include == "Object" else b"null" if include == "None" else partial_object(value, version)
        return b'{"cells":%s,%s"object":%s}' % (
            _encode(self._cells(document, now)),
            b'"conditions":%s,' % _encode(conditions) if conditions else b"",
            shown,
        )

    def bookmark_row(self, value: bytes, version: str = "v1") -> bytes:
        """The row of a bookmark: empty cells, and the metadata that clients look at."""
        return b'{"cells":%s,"object":%s}' % (
            _encode([None] * len(_decode(self.columns))),
            partial_object(value, version),
        )


def table(metadata: bytes, columns: bytes | None, rows: Iterable[bytes], version: str = "v1") -> bytes:
    """The Table object. Without ``columns`` there are no definitions in it, as in all but a watch's first event."""
    return b'{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":%s,"rows":[%s]}' % (
        version.encode(),
        metadata,
        b"null" if columns is None else columns,
        b",".join(rows),
    )


def single_metadata(value: bytes) -> bytes:
    """The list metadata of a table that shows one object: its resource version."""
    metadata = _decode(metadata_of(value))
    return _encode({"resourceVersion": metadata.get("resourceVersion", "")})


def _custom_columns(info: ResourceInfo) -> tuple[bytes, Cells]:
    asked: Sequence[dict[str, Any]] = getattr(info.custom, "printer_columns", ()) or (_CREATED,)
    columns = [Column("Name", format="name", description=_NAME_DESCRIPTION)]
    columns += [
        Column(
            column["name"],
            column.get("type", "string"),
            column.get("format", ""),
            column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column.get('jsonPath', '')}",
            column.get("priority", 0),
        )
        for column in asked
    ]

    def cells(value: Any, now: datetime.datetime) -> list[Any]:
        found = [cell(value, column.get("jsonPath", ""), column.get("type", "string"), now) for column in asked]
        return [name_of(value), *found]

    return _encode(columns), cells


_NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
