"""``StatusError`` and the ``Status`` bodies of failures, with upstream's reasons, codes and messages.

Handlers raise ``StatusError``; the server sends its ``body``. The constructors below have the names of apimachinery's
``pkg/api/errors/errors.go`` (v0.36). Errors of fields are in ``field_errors``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import FieldError
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.go_text import quote
from pilothouse.storage.unreadable import why_unreadable

_encode = msgspec.json.Encoder().encode


class StatusError(Exception):
    """A failure, as ``Status``. ``reason`` may be empty (a plain 500)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        continue_: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.continue_ = continue_

    @property
    def retry_after(self) -> int:
        """Seconds for the Retry-After header; 0 for none."""
        seconds: int = (self.details or {}).get("retryAfterSeconds", 0)
        return seconds

    @property
    def status(self) -> dict[str, Any]:
        """The ``Status`` object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_} if self.continue_ else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @property
    def body(self) -> bytes:
        """The ``Status`` as JSON."""
        return _encode(self.status)


class PlainNotFound(Exception):
    """404 with the text ``404 page not found``, not a Status, for a path that is not served."""


def success(details: dict[str, Any] | None = None, *, code: int = 0) -> dict[str, Any]:
    """A ``Status`` for success."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def _resource_details(info: ResourceInfo, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if info.group:
        details["group"] = info.group
    details["kind"] = info.resource
    return details


def bad_request(message: str) -> StatusError:
    """400 with this message."""
    return StatusError(400, "BadRequest", message)


def forbidden(info: ResourceInfo, name: str, reason: str, *, causes: Sequence[dict[str, str]] = ()) -> StatusError:
    """403, about an object or (without a name) a resource."""
    details = _resource_details(info, name)
    if causes:
        details["causes"] = list(causes)
    subject = f'{info.group_resource} "{name}"' if name else info.group_resource
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {reason}", details=details)


def not_found(info: ResourceInfo, name: str) -> StatusError:
    """404, about one object."""
    return StatusError(
        404, "NotFound", f'{info.group_resource} "{name}" not found', details=_resource_details(info, name)
    )


def namespace_not_found(name: str) -> StatusError:
    """404, about the namespace of a request."""
    return StatusError(404, "NotFound", f'namespaces "{name}" not found', details={"name": name, "kind": "namespaces"})


def no_such_resource() -> StatusError:
    """404, about an unknown path in a served group version."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def method_not_allowed() -> StatusError:
    """405, about a path that supports other methods."""
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def already_exists(info: ResourceInfo, name: str, *, being_deleted: bool = False) -> StatusError:
    """409, about an existing name."""
    message = f'{info.group_resource} "{name}" already exists'
    if being_deleted:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, details=_resource_details(info, name))


def no_unique_name(info: ResourceInfo, name: str, *, being_deleted: bool) -> StatusError:
    """409, if every generated name exists."""
    return StatusError(
        409,
        "AlreadyExists",
        f'{"object is being deleted: " if being_deleted else ""}{info.group_resource} "{name}" already exists, '
        "the server was not able to generate a unique name for the object",
        details={**_resource_details(info, name), "retryAfterSeconds": 1},
    )


def conflict(info: ResourceInfo, name: str, reason: str, *, subresource: str = "") -> StatusError:
    """409, about a concurrent write, or a state that does not permit the request."""
    suffix = f"/{subresource}" if subresource else ""
    details = _resource_details(info, name)
    details["kind"] += suffix
    qualified = f"{info.resource}{suffix}.{info.group}" if info.group else f"{info.resource}{suffix}"
    return StatusError(
        409, "Conflict", f'Operation cannot be fulfilled on {qualified} "{name}": {reason}', details=details
    )


def kind_conflict(kind: str, name: str, reason: str, *, group: str = "") -> StatusError:
    """The same where upstream uses a kind for the resource."""
    details = {"name": name, **({"group": group} if group else {}), "kind": kind}
    qualified = f"{kind}.{group}" if group else kind
    return StatusError(
        409, "Conflict", f'Operation cannot be fulfilled on {qualified} "{name}": {reason}', details=details
    )


def modified(info: ResourceInfo, name: str) -> StatusError:
    """409, about a write based on an older version."""
    return conflict(
        info, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def expired(message: str, *, continue_: str = "") -> StatusError:
    """410, about compacted history."""
    return StatusError(410, "Expired", message, continue_=continue_)


def too_large_resource_version(minimum: int, current: int) -> StatusError:
    """504, about a revision that was not reached within three seconds."""
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {minimum}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def timeout(message: str) -> StatusError:
    """504, about a timeout."""
    return StatusError(504, "Timeout", f"Timeout: {message}", details={})


def too_many_requests(message: str) -> StatusError:
    """429, to be retried after a second."""
    return StatusError(429, "TooManyRequests", message, details={"retryAfterSeconds": 1})


def too_large(message: str) -> StatusError:
    """413."""
    return StatusError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(message: str, *, details: dict[str, Any] | None = None) -> StatusError:
    """415."""
    return StatusError(415, "UnsupportedMediaType", message, details=details)


def corrupt(key: str, reason: str) -> StatusError:
    """500 for a stored object that cannot be read (apiserver ``pkg/storage/errors.go``, v0.36)."""
    return internal(
        f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {reason}"
    )


def unreadable(value: bytes, key: str, error: object) -> StatusError:
    """500 for a stored value that can't be decoded, by reason: corrupt, or not decryptable."""
    cause = why_unreadable(value)
    if cause is None:
        return corrupt(key, str(error))
    return internal(cause.reason) if cause.storage_key else corrupt(key, cause.reason)


def check_readable(values: Iterable[bytes]) -> None:
    """Raises the 500 for a list with an unreadable value (apiserver ``pkg/storage/etcd3/store.go``, v0.36)."""
    for value in values:
        cause = why_unreadable(value)
        if cause is not None:
            if cause.storage_key:
                raise internal(f"unable to transform key {quote(cause.storage_key)}: {cause.reason}")
            raise corrupt("", cause.reason)


def internal(message: str) -> StatusError:
    """500 with a reason."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def plain(message: str, *, code: int = 500) -> StatusError:
    """500 without a reason, for errors that upstream returns as their text."""
    return StatusError(code, "", message)


MAX_ERROR_BYTES = 4 * 1024 * 1024


def _limited(errors: "list[FieldError]") -> "tuple[list[FieldError], int]":
    """The first errors, up to the limit and at least one, and the number of the others."""
    size = 0
    for position, error in enumerate(errors):
        size += len(error.text) + len(error.field) + 100
        if size > MAX_ERROR_BYTES and position:
            return errors[:position], len(errors) - position
    return errors, 0


def changed_kind(obj: dict[str, Any], kind: str, api_version: str) -> StatusError:
    """422, about a custom object with another kind or version than that of the request."""
    actual_kind, actual_version = obj.get("kind") or kind, obj.get("apiVersion") or api_version
    all_errors = [
        field_errors.invalid(field, actual, f"must be {expected}")
        for field, actual, expected in (("kind", actual_kind, kind), ("apiVersion", actual_version, api_version))
        if actual != expected
    ]
    name = (obj.get("metadata") or {}).get("name") or ""
    return invalid(actual_version.rpartition("/")[0], actual_kind, name, all_errors)


def invalid(group: str, kind: str, name: str, errors: Iterable["FieldError"]) -> StatusError:
    """422, about fields. Duplicate messages are listed once in the text, but every cause is kept, unless they exceed
    ``MAX_ERROR_BYTES``: each of thousands of errors may show the same large value."""
    errors, omitted = _limited(list(errors))
    texts = list(dict.fromkeys(str(error) for error in errors))
    if omitted:
        texts.append(f"and {omitted} more errors")
    error_text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    if errors:
        details["causes"] = [{"reason": error.reason, "message": error.text, "field": error.field} for error in errors]
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {error_text}', details=details)
