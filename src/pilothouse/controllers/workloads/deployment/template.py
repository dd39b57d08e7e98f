"""The ReplicaSet of a template, and how it is found again. Pure.

It is found by its template, not by the hash in its name, which may have been computed by another release.
Upstream: ``EqualIgnoreHash``, v1.36 ``pkg/controller/deployment/util/deployment_util.go``.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.api.meta import OwnerReference
from pilothouse.machinery.bounded_cache import TEMPLATE_BYTES, bounded_cache
from pilothouse.machinery.quantities import QuantityError, canonical
from pilothouse.machinery.splice import replace_fields, take_field

HASH_LABEL = "pod-template-hash"
NAME_LIMIT = 253
TEMPLATES_KEPT = 4096

_MAPS = frozenset({"labels", "annotations", "nodeSelector", "limits", "requests", "overhead", "matchLabels", "options",
                   "volumeAttributes"})  # fmt: skip
"""Fields that are maps: an empty one equals a missing one. Elsewhere ``{}`` is a value: an emptyDir, an empty
selector."""
_QUANTITIES = frozenset({"limits", "requests", "overhead"})
_QUANTITY = frozenset({"sizeLimit", "divisor", "storage"})

_encode = msgspec.json.Encoder().encode
_ordered = msgspec.json.Encoder(order="sorted").encode


def equal_ignore_hash(template_1: msgspec.Raw | bytes, template_2: msgspec.Raw | bytes) -> bool:
    """Whether two templates are equal, but for the hash label."""
    return _canonical_template(bytes(template_1)) == _canonical_template(bytes(template_2))


@bounded_cache(TEMPLATES_KEPT, max_length=TEMPLATE_BYTES)
def _canonical_template(template: bytes) -> bytes:
    value: dict[str, Any] = msgspec.json.decode(template)
    labels = (value.get("metadata") or {}).get("labels")
    if labels:
        labels.pop(HASH_LABEL, None)
    plain = _canonical(value)
    if not plain.get("metadata"):
        plain.pop("metadata", None)
    return _ordered(plain)


def _canonical(value: Any, name: str = "") -> Any:
    """Without fields that equal missing ones, and with quantities in canonical form."""
    if isinstance(value, dict):
        members: dict[str, Any] = {}
        for key, element in value.items():
            element = (
                _canonical_quantity(element) if name in _QUANTITIES or key in _QUANTITY else _canonical(element, key)
            )
            if element is None or element == [] or (element == {} and key in _MAPS):
                continue
            members[key] = element
        return members
    if isinstance(value, list):
        return [_canonical(element) for element in value]
    return value


def _canonical_quantity(value: Any) -> Any:
    try:
        return canonical(str(value)) if isinstance(value, str | int | float) else _canonical(value)
    except QuantityError:
        return value


def labels_of(template: msgspec.Raw | bytes) -> dict[str, str]:
    raw = take_field(template, "metadata.labels")
    return {} if raw is None else msgspec.json.decode(raw, type=dict[str, str])


def with_hash(template: msgspec.Raw | bytes, template_hash: str) -> bytes:
    labels = labels_of(template) | {HASH_LABEL: template_hash}
    return replace_fields(template, {"metadata.labels": _encode(labels)})


def without_hash(template: msgspec.Raw | bytes) -> bytes:
    """The template for a Deployment that rolls back to this ReplicaSet."""
    labels = labels_of(template)
    labels.pop(HASH_LABEL, None)
    return replace_fields(template, {"metadata.labels": _encode(labels)})


def set_name(deployment: str, template_hash: str) -> str:
    """The name of the ReplicaSet: the Deployment's, cut if need be, and the hash."""
    return f"{deployment[: NAME_LIMIT - 1 - len(template_hash)]}-{template_hash}"


def new_set(
    *,
    namespace: str,
    name: str,
    template_hash: str,
    annotations: Mapping[str, str],
    owner: OwnerReference,
    selector: msgspec.Raw | bytes,
    template: msgspec.Raw | bytes,
    replicas: int,
    min_ready_seconds: int,
) -> bytes:
    match_labels = take_field(selector, "matchLabels")
    matched: dict[str, str] = {} if match_labels is None else msgspec.json.decode(match_labels)
    hashed = {HASH_LABEL: template_hash}
    spec: dict[str, Any] = {"replicas": replicas}
    if min_ready_seconds:
        spec["minReadySeconds"] = min_ready_seconds
    spec["selector"] = msgspec.Raw(replace_fields(selector, {"matchLabels": _encode(matched | hashed)}))
    spec["template"] = msgspec.Raw(with_hash(template, template_hash))
    return _encode(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": labels_of(template) | hashed,
                "annotations": dict(annotations),
                "ownerReferences": [owner],
            },
            "spec": spec,
        }
    )
