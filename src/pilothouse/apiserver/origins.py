"""The origin of writes, which the store keeps with each change: the request or decision that caused it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token

from msgspec.structs import replace

from pilothouse.apiserver import errors
from pilothouse.apiserver.audit.context import add_audit_annotation, audit_context
from pilothouse.apiserver.call import Call
from pilothouse.env import Env
from pilothouse.machinery.causes import (
    ANNOTATION,
    HEADER,
    Cause,
    InvalidCause,
    Origin,
    current_cause,
    encode_cause,
    read_cause,
)
from pilothouse.storage import Staged

_MAX_AGENT = 256
"""The maximum length of a User-Agent that is kept with a change."""

_current: ContextVar[Origin | None] = ContextVar("pilothouse origin of writes", default=None)
_get, _set = _current.get, _current.set


_impersonator: ContextVar[str] = ContextVar("pilothouse impersonator of a request", default="")


def stamp_origin(staged: Staged) -> None:
    """Set the origin of a staged write to the current request. A hook of the store."""
    staged.change.origin = _get()


def begin_writes(call: Call, env: Env) -> Token[Origin | None]:
    """From now on until ``end_writes`` the writes of this task are caused by this request. Raises ``StatusError`` 400
    for an invalid cause header."""
    return _set(_origin(call, env))


def repeat_writes(last_origin: Origin, env: Env) -> Token[Origin | None]:
    """``begin_writes`` for a request like the last one, without a cause header and audit."""
    cause, time = current_cause(), env.clock.timestamp()
    agent, verb, manager = last_origin.user_agent, last_origin.verb, last_origin.field_manager
    subresource, command, impersonator = last_origin.subresource, last_origin.command, last_origin.impersonator
    return _set(Origin(last_origin.user, agent, verb, subresource, manager, "", cause, command, time, impersonator))


@contextmanager
def impersonated_by(user: str) -> Iterator[None]:
    """Requests handled in this context are sent by this user on behalf of another one."""
    token = _impersonator.set(user)
    try:
        yield
    finally:
        _impersonator.reset(token)


def current_origin() -> Origin | None:
    """The origin of the writes of this task."""
    return _get()


end_writes = _current.reset

COMPONENT = "kube-apiserver"
"""The origin of writes that are not caused by a request."""
_SERVER = "system:apiserver"


@contextmanager
def own_writes(env: Env, key: str, decision: str) -> Iterator[None]:
    """Writes staged in this context are caused by the server itself, not by a request."""
    origin = Origin(_SERVER, cause=Cause(COMPONENT, key, decision), time=env.timestamp())
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def record_reason(sentence: str) -> None:
    """Set the server's reason for later writes of this request, in addition to the decision given by the client."""
    origin = _current.get()
    if origin is None:
        return
    cause = origin.cause
    if cause is None:
        cause = Cause(COMPONENT, "", sentence)
    else:
        cause = replace(cause, decision=f"{cause.decision}; {sentence}" if cause.decision else sentence)
    _current.set(replace(origin, cause=cause))


@contextmanager
def reason(sentence: str) -> Iterator[None]:
    """``record_reason`` for writes staged in this context."""
    token = _current.set(_current.get())
    record_reason(sentence)
    try:
        yield
    finally:
        _current.reset(token)


def _origin(call: Call, env: Env) -> Origin:
    headers, info = call.request.headers, call.request_info
    cause = _claimed_cause(headers) if HEADER in headers else None
    if cause is None:
        cause = current_cause()
    audit_id = ""
    audit = audit_context()
    if audit is not None:
        audit_id = audit.audit_id
        if cause is not None:
            add_audit_annotation(ANNOTATION, encode_cause(cause).decode())
    query = info.query
    return Origin(
        call.identity.user,
        headers.get("user-agent", "")[:_MAX_AGENT],
        info.verb,
        info.subresource,
        query.first("fieldManager")[:_MAX_AGENT] if query else "",
        audit_id,
        cause,
        headers.get("kubectl-command", "")[:_MAX_AGENT],
        env.timestamp(),
        _impersonator.get(),
    )


def _claimed_cause(headers: Mapping[str, str]) -> Cause | None:
    try:
        return read_cause(headers)
    except InvalidCause as error:
        raise errors.bad_request(f"the header Pilothouse-Cause is invalid: {error}") from error
