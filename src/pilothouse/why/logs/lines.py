"""Parses lines of decision and audit logs to ``Record``: an accepted write, or a rejected eviction."""

import datetime
import re
from typing import Any

import msgspec

from pilothouse.client.decision_log import Line
from pilothouse.machinery.causes import ANNOTATION, HEADER, Cause, read_cause

DECISIONS, AUDIT = "decision log", "audit log"

_WRITE = re.compile(rb'"verb":\s*"(?:create|update|patch|delete|deletecollection)"')
_REJECTED = 429
_MAX_NAME = 512
_MAX_MESSAGE = 500
_SKIPPED_RESOURCES = frozenset({"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
_SKIPPED_SUBRESOURCES = frozenset({"token", "exec", "attach", "portforward", "proxy"})


class InvalidLineError(ValueError):
    """A line that can't be parsed."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One write."""

    source: str
    """DECISIONS or AUDIT."""
    time: str
    """When the API server received the request; for a decision log, when the program received the response."""
    at: int
    """``time`` in microseconds since the epoch."""
    verb: str
    resource: str
    """The group resource: ``replicasets.apps``."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """Empty for a collection, and for generated names that are not in the log."""
    uid: str = ""
    version: int = 0
    """The object's resourceVersion after the write; 0 if it is not in the log."""
    code: int = 200
    user: str = ""
    user_agent: str = ""
    field_manager: str = ""
    audit_id: str = ""
    cause: Cause | None = None
    message: str = ""
    """The error of a rejection."""
    level: str = ""
    """The level of an audit event."""
    has_selector: bool = False
    """Whether a request for a collection has a selector."""

    @property
    def is_rejected(self) -> bool:
        """Whether it is an eviction that was rejected because of a budget."""
        return self.code == _REJECTED


class _Ref(msgspec.Struct, gc=False, rename="camel"):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    subresource: str = ""


class _User(msgspec.Struct, gc=False):
    username: str = ""


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _ResponseObject(msgspec.Struct, gc=False):
    kind: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _ResponseStatus(msgspec.Struct, gc=False):
    code: int = 0
    message: str | None = None


class _AuditEvent(msgspec.Struct, gc=False, rename="camel"):
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    verb: str
    level: str = ""
    request_uri: str = msgspec.field(default="", name="requestURI")
    user: _User = msgspec.field(default_factory=_User)
    impersonated_user: _User | None = None
    user_agent: str = ""
    object_ref: _Ref | None = None
    response_status: _ResponseStatus | None = None
    response_object: _ResponseObject | None = None
    request_received_timestamp: str = ""
    annotations: dict[str, str] = {}


_decode_audit = msgspec.json.Decoder(_AuditEvent).decode
_decode_decision = msgspec.json.Decoder(Line).decode


def read_decision(line: bytes) -> Record | None:
    """Parse a line of a decision log; None if it is not indexed. Raises ``InvalidLineError``."""
    try:
        decision = _decode_decision(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidLineError("no line of a decision log") from error
    if not _is_indexed(decision.resource, decision.subresource, decision.code):
        return None
    _check_lengths(
        decision.group, decision.resource, decision.subresource, decision.namespace, decision.name, decision.uid
    )
    return Record(
        source=DECISIONS,
        time=decision.time,
        at=_microseconds(decision.time),
        verb=decision.verb,
        resource=_group_resource(decision.group, decision.resource),
        subresource=decision.subresource,
        namespace=_namespace(decision.group, decision.resource, decision.namespace),
        name=decision.name,
        uid=decision.uid,
        version=0 if decision.verb == "deletecollection" else _version(decision.resource_version),
        code=decision.code,
        user_agent=decision.user_agent[:_MAX_NAME],
        audit_id=decision.audit_id,
        cause=decision.cause,
        message=decision.message[:_MAX_MESSAGE],
    )


def read_audit(line: bytes) -> Record | None:
    """Parse a line of an audit log; None if it is no write or not indexed. Raises ``InvalidLineError``."""
    if _WRITE.search(line) is None and line.startswith(b"{") and line.rstrip().endswith(b"}"):
        return None
    try:
        event = _decode_audit(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidLineError("no event of an audit log in JSON") from error
    ref, status = event.object_ref, event.response_status
    if event.stage != "ResponseComplete" or ref is None or status is None or "dryRun=" in event.request_uri:
        return None
    if not _is_indexed(ref.resource, ref.subresource, status.code):
        return None
    _check_lengths(ref.api_group, ref.resource, ref.subresource, ref.namespace, ref.name, ref.uid, event.audit_id)
    response = event.response_object
    # Status and Binding do not have the object's metadata; a Scale does.
    metadata = response.metadata if response is not None and response.kind not in ("Status", "Binding") else _Metadata()
    user = event.user.username
    if event.impersonated_user is not None and event.impersonated_user.username != user:
        user = f"{event.impersonated_user.username} (impersonated by {user})"
    _check_lengths(metadata.name, metadata.uid)
    return Record(
        source=AUDIT,
        time=event.request_received_timestamp,
        at=_microseconds(event.request_received_timestamp),
        verb=event.verb,
        resource=_group_resource(ref.api_group, ref.resource),
        subresource=ref.subresource,
        namespace=_namespace(ref.api_group, ref.resource, ref.namespace),
        name=ref.name or ("" if event.verb == "deletecollection" else metadata.name),
        uid=metadata.uid or ref.uid,
        version=0 if event.verb == "deletecollection" else _version(metadata.resource_version),
        code=status.code,
        user=user[:_MAX_NAME],
        user_agent=event.user_agent[:_MAX_NAME],
        field_manager=_field_manager(event.request_uri),
        audit_id=event.audit_id,
        cause=_annotated_cause(event.annotations),
        message=(status.message or "")[:_MAX_MESSAGE],
        level=event.level,
        has_selector="Selector=" in event.request_uri,
    )


class Bodies(msgspec.Struct):
    """Request and response body of an audit event."""

    request_object: Any = msgspec.field(default=None, name="requestObject")
    response_object: Any = msgspec.field(default=None, name="responseObject")


_decode_bodies = msgspec.json.Decoder(Bodies).decode


def read_bodies(line: bytes) -> Bodies:
    """The bodies of a line of an audit log; empty if it can't be parsed."""
    try:
        return _decode_bodies(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Bodies()


def _is_indexed(resource: str, subresource: str, code: int) -> bool:
    if not resource or resource in _SKIPPED_RESOURCES or subresource in _SKIPPED_SUBRESOURCES:
        return False
    return 200 <= code < 300 or (code == _REJECTED and subresource == "eviction")


def _check_lengths(*names: str) -> None:
    if max(map(len, names)) > _MAX_NAME:
        raise InvalidLineError(f"a name of more than {_MAX_NAME} characters")


def _group_resource(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _namespace(group: str, resource: str, namespace: str) -> str:
    """The object's namespace; empty for Namespaces, whose requests have their own name there."""
    return "" if (group, resource) == ("", "namespaces") else namespace


def _version(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _microseconds(text: str) -> int:
    try:
        return (datetime.datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, OverflowError) as error:  # TypeError: a time without zone
        raise InvalidLineError("no time") from error


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIELD_MANAGER = re.compile(r"[?&]fieldManager=([\w.:/-]{1,128})")


def _field_manager(uri: str) -> str:
    match = _FIELD_MANAGER.search(uri)
    return match[1] if match is not None else ""


def _annotated_cause(annotations: dict[str, str]) -> Cause | None:
    """The cause that pilothouse's API server recorded from the client's header (untrusted)."""
    text = annotations.get(ANNOTATION)
    if not text:
        return None
    try:
        return read_cause({HEADER: text})
    except ValueError:
        return None
