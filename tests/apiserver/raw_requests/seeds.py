"""Valid requests to mutate: recorded with v1.36.2, and one object of every kind."""

import functools
import json
from typing import Any, NamedTuple

from tests.apiserver.recorded.recording import Exchange, scenarios
from tests.apiserver.samples import KINDS, collection, sample
from tests.custom_resources import definition, schema, version

NAMESPACE = "raw"
"""The namespace of all objects."""


class Seed(NamedTuple):
    """One valid object."""

    root: str
    """The path of its collection."""
    body: dict[str, Any]


class Seeds(NamedTuple):
    """The seeds of cases."""

    objects: tuple[Seed, ...]
    patches: dict[str, tuple[Any, ...]]
    """Accepted patches by content type."""
    queries: tuple[str, ...]
    """Query parameters of reads."""


WIDGETS = f"/apis/raw.example.com/v1/namespaces/{NAMESPACE}/widgets"
WIDGET: dict[str, Any] = {
    "apiVersion": "raw.example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "w"},
    "spec": {
        "size": 3,
        "text": "abc",
        "at": "2026-01-01T00:00:00Z",
        "either": 1,
        "parts": [{"name": "a", "share": 0.5}],
        "tags": ["a", "b"],
        "free": {"a": [1, {"b": None}]},
        "settings": {"a": "1"},
    },
}
_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "x-kubernetes-validations": [{"rule": "self.size <= 10 || self.parts.all(p, p.name != 'x')"}],
    "properties": {
        "size": {"type": "integer", "minimum": 0, "default": 1, "format": "int32"},
        "text": {"type": "string", "maxLength": 100, "pattern": "^[a-z]*(b|c)?$"},
        "at": {"type": "string", "format": "date-time"},
        "either": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "maxItems": 100,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": 100},
                    "share": {"type": "number", "multipleOf": 0.25, "nullable": True},
                },
            },
        },
        "tags": {
            "type": "array",
            "maxItems": 100,
            "x-kubernetes-list-type": "set",
            "items": {"type": "string", "enum": ["a", "b", "c"]},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "settings": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
DEFINITION = definition(
    "Widget",
    version(
        schema=schema(_SPEC),
        selectableFields=[{"jsonPath": ".spec.text"}],
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    ),
    group="raw.example.com",
)


@functools.cache
def load() -> Seeds:
    """All seeds, in a fixed order."""
    objects = [Seed(WIDGETS, WIDGET)]
    for info in KINDS:
        objects.append(Seed(collection(info, NAMESPACE), sample(info)))
    patches: dict[str, list[Any]] = {}
    queries = []
    for scenario in scenarios():
        recorded = f"fuzz-{scenario.seed}"
        for exchange in scenario.exchanges:
            if exchange.method == "POST" and exchange.answer.code == 201:
                if (seed := _recorded_object(exchange, recorded)) is not None:
                    objects.append(seed)
            elif exchange.method == "PATCH" and exchange.answer.code in (200, 422):
                patches.setdefault(exchange.content_type, []).append(
                    json.loads(exchange.text.replace(recorded, NAMESPACE))
                )
            elif exchange.method == "GET" and "?" in exchange.target:
                queries.append(exchange.target.partition("?")[2])
    return Seeds(tuple(objects), {name: tuple(definitions) for name, definitions in patches.items()}, tuple(queries))


def _recorded_object(exchange: Exchange, recorded: str) -> Seed | None:
    root = exchange.target.partition("?")[0].replace(recorded, NAMESPACE)
    body = json.loads(exchange.text.replace(recorded, NAMESPACE))
    if not isinstance(body, dict) or root == "/api/v1/namespaces" or not isinstance(body.get("metadata"), dict):
        return None
    return Seed(root, body)
