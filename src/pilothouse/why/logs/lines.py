"""The lines of decision logs and audit logs as ``Record``: one write that an API server has accepted, or an eviction
that it has rejected."""

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
_LEFT_OUT = frozenset({"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
_LEFT_OUT_SUBRESOURCES = frozenset({"token", "exec", "attach", "portforward", "proxy"})


class NoLine(ValueError):
    """What is no line of such a log."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One write."""

    source: str
    """DECISIONS or AUDIT."""
    time: str
    """When the API server received the request; of a decision log, when the program received the answer."""
    at: int
    """The same in microseconds since the epoch."""
    verb: str
    resource: str
    """The group resource: ``replicasets.apps``."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """Empty for a collection, and for names that were generated and are not in the log."""
    uid: str = ""
    version: int = 0
    """The resourceVersion that the write made; 0 if it is not in the log."""
    code: int = 200
    user: str = ""
    user_agent: str = ""
    field_manager: str = ""
    audit_id: str = ""
    cause: Cause | None = None
    message: str = ""
    """Of a rejection."""
    level: str = ""
    """Of an audit event."""
    selects: bool = False
    """Only some objects of a collection were meant."""

    @property
    def is_rejected(self) -> bool:
        """An eviction that a budget did not allow."""
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


class _Answer(msgspec.Struct, gc=False):
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
    response_object: _Answer | None = None
    request_received_timestamp: str = ""
    annotations: dict[str, str] = {}


_decode_audit = msgspec.json.Decoder(_AuditEvent).decode
_decode_decision = msgspec.json.Decoder(Line).decode


def read_decision(line: bytes) -> Record | None:
    """A line of a decision log; None if it changed nothing. Raises ``NoLine``."""
    try:
        found = _decode_decision(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NoLine("no line of a decision log") from error
    if not _concerns(found.resource, found.subresource, found.code):
        return None
    _checked(found.group, found.resource, found.subresource, found.namespace, found.name, found.uid)
    return Record(
        source=DECISIONS,
        time=found.time,
        at=_microseconds(found.time),
        verb=found.verb,
        resource=_group_resource(found.group, found.resource),
        subresource=found.subresource,
        namespace=_namespace(found.group, found.resource, found.namespace),
        name=found.name,
        uid=found.uid,
        version=0 if found.verb == "deletecollection" else _version(found.resource_version),
        code=found.code,
        user_agent=found.user_agent[:_MAX_NAME],
        audit_id=found.audit_id,
        cause=found.cause,
        message=found.message[:_MAX_MESSAGE],
    )


def read_audit(line: bytes) -> Record | None:
    """A line of an audit log; None if it is no write, or changed nothing. Raises ``NoLine``."""
    if _WRITE.search(line) is None and line.startswith(b"{") and line.rstrip().endswith(b"}"):
        return None
    try:
        found = _decode_audit(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NoLine("no event of an audit log in JSON") from error
    ref, status = found.object_ref, found.response_status
    if found.stage != "ResponseComplete" or ref is None or status is None or "dryRun=" in found.request_uri:
        return None
    if not _concerns(ref.resource, ref.subresource, status.code):
        return None
    _checked(ref.api_group, ref.resource, ref.subresource, ref.namespace, ref.name, ref.uid, found.audit_id)
    answer = found.response_object
    # A Status, a Scale or a Binding has metadata of its own, or none; that of a Scale is the object's.
    metadata = answer.metadata if answer is not None and answer.kind not in ("Status", "Binding") else _Metadata()
    user = found.user.username
    if found.impersonated_user is not None and found.impersonated_user.username != user:
        user = f"{found.impersonated_user.username} (impersonated by {user})"
    _checked(metadata.name, metadata.uid)
    return Record(
        source=AUDIT,
        time=found.request_received_timestamp,
        at=_microseconds(found.request_received_timestamp),
        verb=found.verb,
        resource=_group_resource(ref.api_group, ref.resource),
        subresource=ref.subresource,
        namespace=_namespace(ref.api_group, ref.resource, ref.namespace),
        name=ref.name or ("" if found.verb == "deletecollection" else metadata.name),
        uid=metadata.uid or ref.uid,
        version=0 if found.verb == "deletecollection" else _version(metadata.resource_version),
        code=status.code,
        user=user[:_MAX_NAME],
        user_agent=found.user_agent[:_MAX_NAME],
        field_manager=_field_manager(found.request_uri),
        audit_id=found.audit_id,
        cause=_annotated(found.annotations),
        message=(status.message or "")[:_MAX_MESSAGE],
        level=found.level,
        selects="Selector=" in found.request_uri,
    )


class Bodies(msgspec.Struct):
    """What an audit event has of request and response."""

    request_object: Any = msgspec.field(default=None, name="requestObject")
    response_object: Any = msgspec.field(default=None, name="responseObject")


_decode_bodies = msgspec.json.Decoder(Bodies).decode


def read_bodies(line: bytes) -> Bodies:
    """Of a line of an audit log; empty for what can't be read."""
    try:
        return _decode_bodies(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Bodies()


def _concerns(resource: str, subresource: str, code: int) -> bool:
    if not resource or resource in _LEFT_OUT or subresource in _LEFT_OUT_SUBRESOURCES:
        return False
    return 200 <= code < 300 or (code == _REJECTED and subresource == "eviction")


def _checked(*names: str) -> None:
    if max(map(len, names)) > _MAX_NAME:
        raise NoLine(f"a name of more than {_MAX_NAME} characters")


def _group_resource(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _namespace(group: str, resource: str, namespace: str) -> str:
    """A request for a namespace is one in that namespace, for the API server; the object is in none."""
    return "" if (group, resource) == ("", "namespaces") else namespace


def _version(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _microseconds(text: str) -> int:
    try:
        return (datetime.datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, OverflowError) as error:  # TypeError: a time without zone
        raise NoLine("no time") from error


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIELD_MANAGER = re.compile(r"[?&]fieldManager=([\w.:/-]{1,128})")


def _field_manager(uri: str) -> str:
    found = _FIELD_MANAGER.search(uri)
    return found[1] if found is not None else ""


def _annotated(annotations: dict[str, str]) -> Cause | None:
    """The cause that pilothouse's API server recorded; as untrusted as the client's header."""
    text = annotations.get(ANNOTATION)
    if not text:
        return None
    try:
        return read_cause({HEADER: text})
    except ValueError:
        return None
