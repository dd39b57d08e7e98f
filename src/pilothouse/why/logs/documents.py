"""Extracts the written object from an audit event. Pure."""

from typing import Any

from pilothouse.why.evidence import Document
from pilothouse.why.logs.lines import Bodies, Record


def written_object(record: Record, bodies: Bodies) -> Document | None:
    """The object after the write: the response, or the request body if the level has no responses."""
    if record.subresource not in ("", "status"):
        return None
    response = bodies.response_object
    if _is_object(response):
        return dict(response) if isinstance(response, dict) and not _is_list(response) else None
    request = bodies.request_object
    if record.verb in ("create", "update") and _is_object(request) and isinstance(request, dict):
        return request
    return None


def scaled_to(record: Record, bodies: Bodies) -> int | None:
    """The replicas of a write of the subresource ``scale``; None for other writes."""
    if record.subresource != "scale":
        return None
    for body in (bodies.response_object, bodies.request_object):
        spec = body.get("spec") if isinstance(body, dict) else None
        replicas = spec.get("replicas") if isinstance(spec, dict) else None
        if isinstance(replicas, int):
            return replicas
    return None


def sent_fields(record: Record, bodies: Bodies) -> Document:
    """The fields of a patch or of a write of ``scale``; empty if they are not in the log."""
    replicas = scaled_to(record, bodies)
    if replicas is not None:
        return {"spec": {"replicas": replicas}}
    request = bodies.request_object
    return request if record.verb == "patch" and not record.subresource and isinstance(request, dict) else {}


def with_replicas(document: Document, replicas: int) -> Document:
    """A copy of the object with ``spec.replicas`` set."""
    spec = document.get("spec")
    return {**document, "spec": {**(spec if isinstance(spec, dict) else {}), "replicas": replicas}}


def names_in(bodies: Bodies) -> set[str] | None:
    """The names of the objects in the response of a deletecollection; None if they are not in the log."""
    response = bodies.response_object
    items = response.get("items") if isinstance(response, dict) else None
    if not isinstance(items, list):
        return None
    return {str(item["metadata"].get("name")) for item in items if _is_object(item)}


def _is_object(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("metadata"), dict) and body.get("kind") != "Status"


def _is_list(body: Document) -> bool:
    return isinstance(body.get("items"), list)
