"""Who makes the writes of a request, and why: the origin that the store keeps with each change."""

from contextvars import ContextVar, Token

from pilothouse.apiserver import errors
from pilothouse.apiserver.audit.context import add_audit_annotation, audit_context
from pilothouse.apiserver.call import Call
from pilothouse.env import Env
from pilothouse.machinery.causes import ANNOTATION, Cause, InvalidCause, current_cause, encode_cause, read_cause
from pilothouse.storage import Origin, Staged

_MAX_AGENT = 256
"""Characters of a User-Agent that are kept with a change."""

_current: ContextVar[Origin | None] = ContextVar("pilothouse origin of writes", default=None)


def stamp_origin(staged: Staged) -> None:
    """Give a staged write the origin of the request under way. A hook of the store."""
    staged.change.origin = _current.get()


def begin_writes(call: Call, env: Env) -> Token[Origin | None]:
    """What this task stages until ``end_writes`` comes from this request. Raises ``StatusError`` 400 for a header that
    is no cause."""
    return _current.set(_origin(call, env))


end_writes = _current.reset


def _origin(call: Call, env: Env) -> Origin:
    headers, info = call.request.headers, call.request_info
    cause = _cause(call)
    audit = audit_context()
    if audit is not None and cause is not None:
        add_audit_annotation(ANNOTATION, encode_cause(cause).decode())
    agent = headers.get("user-agent", "")
    return Origin(
        env.now().timestamp(),
        call.identity.user,
        agent[:_MAX_AGENT],
        info.verb,
        info.subresource,
        info.query.first("fieldManager")[:_MAX_AGENT],
        "" if audit is None else audit.audit_id,
        cause,
    )


def _cause(call: Call) -> Cause | None:
    try:
        return read_cause(call.request.headers) or current_cause()
    except InvalidCause as error:
        raise errors.bad_request(f"the header Pilothouse-Cause is invalid: {error}") from error
