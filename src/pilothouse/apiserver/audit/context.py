"""``AuditContext``: the audit event of the current request, which is filled in while the request is handled.

After apiserver's ``pkg/audit/{context,request}.go`` (v0.36). ``filter`` creates it and writes it at each stage.
Handlers get it with ``audit_context``, which returns None if nothing is audited.
"""

import datetime
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from pilothouse.apiserver.audit.checker import RequestAuditConfig
from pilothouse.apiserver.audit.policy import METADATA, NONE, REQUEST, REQUEST_RESPONSE, is_at_least
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.errors import StatusError
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import Log
from pilothouse.machinery.json_bounds import exceeded

with lazy_imports():
    from pilothouse.apiserver.audit import event as events
    from pilothouse.apiserver.audit import managed_fields
    from pilothouse.machinery import yaml_text

_log = Log("audit")

MAX_OBJECT = 10 * 1024 * 1024
"""The maximum size of an object in an event. A larger one is left out, as with ``--audit-log-truncate-enabled``, and
the event is annotated: a list may be as large as the whole store. Upstream has no such limit."""

_COPIED = ("status", "message", "reason", "details", "code")


class AuditContext:
    """The audit state of one request."""

    def __init__(self, audit_id: str, received_at: datetime.datetime) -> None:
        self.audit_id = audit_id
        self.received_at = received_at
        self.config: RequestAuditConfig | None = None
        """None until the policy is evaluated; annotations are kept in any case."""
        self.annotations: dict[str, str] = {}
        self.impersonated: Identity | None = None
        self.impersonation_constraint = ""
        self.object_ref: events.ObjectReference | None = None
        self.request_object: bytes | None = None
        self.response_object: bytes | None = None
        self.response_status: dict[str, Any] | None = None
        self.panicked = False

    @property
    def enabled(self) -> bool:
        """Whether the request is recorded at all."""
        return self.config is None or self.config.level != NONE

    def records(self, level: str) -> bool:
        """Whether the request is recorded at this level at least."""
        return self.config is not None and is_at_least(self.config.level, level)

    @property
    def records_request(self) -> bool:
        """Whether the request's object is recorded."""
        return self.records(REQUEST)

    @property
    def records_response(self) -> bool:
        """Whether the response's object is recorded."""
        return self.records(REQUEST_RESPONSE)

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation. The first value of a key is kept."""
        if self.annotations.setdefault(key, value) != value:
            _log.warning(
                "An audit annotation has already been set to another value",
                key=key,
                value=value,
                auditID=self.audit_id,
                already=self.annotations[key],
            )

    def log_impersonated_user(self, identity: Identity, constraint: str) -> None:
        """Record an impersonation; ``constraint`` is the verb that permitted it, if it was constrained
        impersonation."""
        self.impersonated, self.impersonation_constraint = identity, constraint

    def log_request_object(self, metadata: Mapping[str, Any] | None, encode: Callable[[], bytes]) -> None:
        """Record the decoded body. ``encode`` returns its JSON, and is only called if it is recorded."""
        if not self.records(METADATA):
            return
        ref = self.object_ref
        if ref is not None and metadata is not None:
            ref.namespace = ref.namespace or metadata.get("namespace") or ""
            ref.name = ref.name or metadata.get("name") or ""
            ref.uid = ref.uid or metadata.get("uid") or ""
            ref.resource_version = ref.resource_version or metadata.get("resourceVersion") or ""
        if self.records_request and self.request_object is None:
            self.request_object = self._recorded(encode())

    def log_request_patch(self, patch: bytes, *, is_yaml: bool) -> None:
        """Record the body of a patch request. A patch that can't be decoded is not recorded, because events are
        JSON."""
        if not self.records_request or exceeded(patch):
            return
        try:
            if is_yaml:
                text = msgspec.json.encode(yaml_text.load_yaml(patch))
            else:
                # On one line, and without invalid UTF-8.
                text = msgspec.json.format(patch.decode(errors="replace"), indent=-1).encode()
        except ValueError as error:
            _log.info(
                "A patch that can't be decoded is omitted from its audit event", auditID=self.audit_id, error=error, v=2
            )
            return
        # A patch need not be an object, and upstream does not remove its managedFields, either.
        self.request_object = self._within_bounds(text)

    def log_response_object(self, value: bytes, status: Mapping[str, Any] | None = None) -> None:
        """Record the object of the response, as JSON on one line; ``status`` if it is a Status."""
        if status is not None:
            self.response_status = {"metadata": {}, **{key: status[key] for key in _COPIED if key in status}}
        if self.records_response:
            self.response_object = self._recorded(value)

    def log_error(self, error: StatusError) -> None:
        """Record a failure as the response."""
        # Upstream records responses in the encoder, and a 406 (no acceptable media type) is written without it.
        if error.code != 406 and self.records(METADATA):
            self.log_response_object(error.body, error.status)

    def log_panic(self, error: BaseException) -> None:
        """Record an exception of the handler that is no ``StatusError`` (a panic upstream)."""
        self.panicked = True
        self.response_object = None
        self.response_status = {
            "metadata": {},
            "status": "Failure",
            "message": f"APIServer panic'd: {error}",
            "reason": "InternalError",
            "code": 500,
        }

    def set_code(self, code: int) -> None:
        """Set the status code of the response."""
        self.response_status = {**(self.response_status or {"metadata": {}}), "code": code}

    def omit_objects(self) -> None:
        """Annotate that an object is too large to be recorded."""
        self.annotations[events.TRUNCATED] = "true"

    def _recorded(self, value: bytes) -> bytes | None:
        if self.config is not None and self.config.omit_managed_fields:
            value = managed_fields.without_managed_fields(value)
        return self._within_bounds(value)

    def _within_bounds(self, value: bytes) -> bytes | None:
        if len(value) > MAX_OBJECT:
            self.omit_objects()
            return None
        return value


_current: ContextVar[AuditContext | None] = ContextVar("pilothouse audit context", default=None)
set_audit_context = _current.set
reset_audit_context = _current.reset
audit_context = _current.get
"""The context of the current request; None if nothing is audited."""


def add_audit_annotation(key: str, value: str, level: str = METADATA) -> None:
    """Annotate the event of the current request, if it is recorded at least at this level. May be called from anywhere
    in the handling of a request, worker threads included."""
    context = _current.get()
    if context is not None and context.enabled and (level == METADATA or context.records(level)):
        context.annotate(key, value)
