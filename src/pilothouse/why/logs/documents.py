"""What an audit event has of the object that its request wrote. Pure."""

from typing import Any

from pilothouse.why.evidence import Document
from pilothouse.why.logs.lines import Bodies, Record


def written_object(record: Record, bodies: Bodies) -> Document | None:
    """The whole object as the write left it: the response, or, if only the request is there, what was sent."""
    if record.subresource not in ("", "status"):
        return None
    answer = bodies.response_object
    if _is_object(answer):
        return dict(answer) if isinstance(answer, dict) and not _is_list(answer) else None
    sent = bodies.request_object
    if record.verb in ("create", "update") and _is_object(sent) and isinstance(sent, dict):
        return sent
    return None


def scaled_to(record: Record, bodies: Bodies) -> int | None:
    """The replicas that a write of the subresource ``scale`` asked for."""
    if record.subresource != "scale":
        return None
    for body in (bodies.response_object, bodies.request_object):
        spec = body.get("spec") if isinstance(body, dict) else None
        replicas = spec.get("replicas") if isinstance(spec, dict) else None
        if isinstance(replicas, int):
            return replicas
    return None


def sent_fields(record: Record, bodies: Bodies) -> Document:
    """The fields that a patch named, or that scaling set; empty if they are not in the log."""
    replicas = scaled_to(record, bodies)
    if replicas is not None:
        return {"spec": {"replicas": replicas}}
    sent = bodies.request_object
    return sent if record.verb == "patch" and not record.subresource and isinstance(sent, dict) else {}


def with_replicas(document: Document, replicas: int) -> Document:
    """A scaled object."""
    spec = document.get("spec")
    return {**document, "spec": {**(spec if isinstance(spec, dict) else {}), "replicas": replicas}}


def names_in(bodies: Bodies) -> set[str] | None:
    """The names of the objects that the deletion of a collection was answered with; None if they are not in the log."""
    answer = bodies.response_object
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        return None
    return {str(item["metadata"].get("name")) for item in items if _is_object(item)}


def _is_object(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("metadata"), dict) and found.get("kind") != "Status"


def _is_list(found: Document) -> bool:
    return isinstance(found.get("items"), list)
