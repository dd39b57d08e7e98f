"""``Table``: the output of ``kubectl get``, printed by the server.

The registrations of the built-in kinds have the columns and cells; columns of custom kinds come from their definition.
"""

import datetime
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.printers.columns import cells
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.registry.generic.printers import NAME_AND_AGE, SCALE, Column, Printer, name_of
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.partial_metadata import metadata_of, partial_object

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_INCLUDES = ("None", "Metadata", "Object", "")
_CREATED = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "CreationTimestamp is a timestamp representing the server time when this object was created. It is "
    "not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It "
    "is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
}
"""The column of a definition without columns."""
_MAX_COLUMNS = 500
"""How many columns of a definition are shown. Upstream has no limit; kubectl's tables have about ten."""
_WITHOUT_TABLE = ("authentication.k8s.io", "authorization.k8s.io")


def has_table(info: ResourceInfo) -> bool:
    """Whether objects of the resource can be printed as a table. Reviews and bindings can't."""
    return info.group not in _WITHOUT_TABLE and info.kind != "Binding"


def check_include(value: str) -> str:
    """Validate the ``includeObject`` query parameter. Raises upstream's 400."""
    if value not in _INCLUDES:
        raise errors.bad_request(
            "Unable to convert to Table as requested: includeObject: Invalid value: "
            f"{field_errors.format_value(value)}: must be 'Metadata', 'Object', 'None', or empty"
        )
    return value or "Metadata"


class TableConvertor:
    """Creates the tables of one resource, or of a subresource of another kind (``kind``: apiVersion and kind)."""

    def __init__(self, info: ResourceInfo, kind: str = "") -> None:
        own_kind = f"{info.api_version} {info.kind}"
        printer: Printer | _CustomPrinter
        if kind not in ("", own_kind):
            printer = SCALE if kind == "autoscaling/v1 Scale" else NAME_AND_AGE
        elif info.custom is not None:
            printer = _custom_printer(info)
        else:
            printer = _printer_of(info)
        columns = printer.columns if info.custom is not None else _described(printer.columns, kind or own_kind)
        self.columns = _encode(columns)
        self._printer = printer

    def row(self, value: bytes, include: str, now: datetime.datetime, version: str = "v1") -> bytes:
        """One row for an object that begins with kind and apiVersion."""
        document = _decode(value)
        conditions = self._printer.conditions(document) if self._printer.conditions is not None else None
        obj = value if include == "Object" else b"null" if include == "None" else partial_object(value, version)
        return b'{"cells":%s,%s"object":%s}' % (
            _encode(self._printer.row(document, now, len(value))),
            b'"conditions":%s,' % _encode(conditions) if conditions else b"",
            obj,
        )

    def bookmark_row(self, value: bytes, version: str = "v1") -> bytes:
        """The row of a bookmark: empty cells, and the metadata that clients read."""
        return b'{"cells":%s,"object":%s}' % (
            _encode([None] * len(_decode(self.columns))),
            partial_object(value, version),
        )


def table(metadata: bytes, columns: bytes | None, rows: Iterable[bytes], version: str = "v1") -> bytes:
    """The Table object. Without ``columns`` it has no definitions, as all but the first event of a watch."""
    return b'{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":%s,"rows":[%s]}' % (
        version.encode(),
        metadata,
        b"null" if columns is None else columns,
        b",".join(rows),
    )


def single_metadata(value: bytes) -> bytes:
    """The list metadata of a table of one object: its resource version."""
    metadata = _decode(metadata_of(value))
    return _encode({"resourceVersion": metadata.get("resourceVersion", "")})


def _printer_of(info: ResourceInfo) -> Printer:
    declared = registration_of(info.group, info.resource).printer
    return NAME_AND_AGE if declared is None else declared()


class _Descriptions(msgspec.Struct, frozen=True):
    """The descriptions of the columns of built-in kinds, as kube-apiserver v1.36.2 returns them."""

    texts: tuple[str, ...]
    columns: dict[str, tuple[int, ...]]
    """``apps/v1 Deployment`` → the text of each column."""


@cache
def _descriptions() -> _Descriptions:
    return msgspec.json.decode(packaged("apiserver/data/column_descriptions.json"), type=_Descriptions)


def _described(columns: Sequence[Column], kind: str) -> Sequence[Column]:
    descriptions = _descriptions()
    positions = descriptions.columns.get(kind)
    if positions is None:
        return columns  # a kind behind a feature gate
    return [
        msgspec.structs.replace(column, description=descriptions.texts[position])
        for column, position in zip(columns, positions, strict=True)
    ]


class _CustomPrinter(msgspec.Struct, frozen=True, eq=False):
    """Prints custom resources, by the columns of their definition."""

    columns: Sequence[Column]
    paths: Sequence[dict[str, Any]]
    conditions: None = None

    def row(self, value: Any, now: datetime.datetime, size: int) -> list[Any]:
        return [name_of(value), *cells(value, self.paths, now, size)]


def _custom_printer(info: ResourceInfo) -> _CustomPrinter:
    printer_columns: Sequence[dict[str, Any]] = getattr(info.custom, "printer_columns", ()) or (_CREATED,)
    printer_columns = printer_columns[:_MAX_COLUMNS]
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
        for column in printer_columns
    ]

    return _CustomPrinter(columns, printer_columns)


_NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
