"""The errors between a client and an API server::

    ApiError                       the server answered, and said no
    ├── BadRequest                 400
    ├── Unauthorized               401
    ├── Forbidden                  403
    ├── NotFound                   404
    ├── MethodNotAllowed           405
    ├── NotAcceptable              406
    ├── AlreadyExists              409, reason AlreadyExists
    ├── Conflict                   409
    ├── Gone                       410
    │   └── Expired                410, reason Expired: a resourceVersion or continue token is too old
    ├── RequestEntityTooLarge      413
    ├── UnsupportedMediaType       415
    ├── Invalid                    422
    ├── TooManyRequests            429
    ├── InternalError              500
    ├── ServerTimeout              500, reason ServerTimeout
    ├── ServiceUnavailable         503
    └── Timeout                    504
    TransportError                 (a ConnectionError) no answer: whether a write happened is unknown, unless said
    ├── ConnectionRefused          (a ConnectionRefusedError) connection refused: certainly not sent
    ├── ConnectFailed              name resolution, TLS, proxy, handshake timeout: certainly not sent
    └── ConnectionLost             (a ConnectionResetError) the connection broke while the answer was awaited
    UndecodableObject              (a ValueError) the server sent an object that does not fit the view
    ConfigError                    (a ValueError) kubeconfig, credentials or in-cluster configuration are unusable

A call that takes too long raises the built-in ``TimeoutError``, as ``asyncio.timeout`` does.

As in apimachinery's ``api/errors`` (v0.36) the Status' ``reason`` determines the class, and the code only if the reason
is unknown.
"""

import msgspec

from pilothouse.api import wire
from pilothouse.api.meta import Status, StatusCause, StatusDetails


class ApiError(Exception):
    """The API server rejected the request. ``status`` is its response; subclasses have the reasons."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message or status.reason or f"HTTP status {status.code}")
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, "" if there is none."""
        return self.status.reason

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The single causes, mostly field errors."""
        return self.status.details.causes if self.status.details is not None else ()

    @property
    def retry_after_seconds(self) -> int:
        """The seconds after which the server suggests to retry; 0 if it does not."""
        return self.status.details.retry_after_seconds if self.status.details is not None else 0


class BadRequest(ApiError):
    """400: the request is malformed."""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: rejected by authorization or admission."""


class NotFound(ApiError):
    """404: no such object, namespace or resource."""


class MethodNotAllowed(ApiError):
    """405: the resource does not support this verb."""


class NotAcceptable(ApiError):
    """406: the server cannot respond in the requested format."""


class AlreadyExists(ApiError):
    """409: an object with that name exists."""


class Conflict(ApiError):
    """409: the object has changed since it was read, or a precondition failed."""


class Gone(ApiError):
    """410: the requested version is no longer available."""


class Expired(Gone):
    """410: the resourceVersion or the continue token is older than the server's history."""


class RequestEntityTooLarge(ApiError):
    """413: the body is too large."""


class UnsupportedMediaType(ApiError):
    """415: the server does not read this content type here."""


class Invalid(ApiError):
    """422: validation failed; ``causes`` name the fields."""


class TooManyRequests(ApiError):
    """429: the server is overloaded, or an eviction would violate a disruption budget."""


class InternalError(ApiError):
    """500: the server failed."""


class ServerTimeout(ApiError):
    """500: the server could not finish in time; try again."""


class ServiceUnavailable(ApiError):
    """503: the server, or one behind it, is not available."""


class Timeout(ApiError):
    """504: the operation ran out of time; it may have happened."""


_BY_REASON: dict[str, type[ApiError]] = {
    kind.__name__: kind
    for kind in (
        BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists, Conflict, Gone,
        Expired, RequestEntityTooLarge, UnsupportedMediaType, Invalid, TooManyRequests, InternalError, ServerTimeout,
        ServiceUnavailable, Timeout,
    )
}  # fmt: skip

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Gone,
    413: RequestEntityTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    500: InternalError,
    503: ServiceUnavailable,
    504: Timeout,
}

# apimachinery api/errors NewGenericServerResponse (v0.36): for responses that are not a Status. They come from proxies
# and from servers that are still starting.
_GENERIC: dict[int, tuple[str, str]] = {
    400: ("BadRequest", "the server rejected our request for an unknown reason"),
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    403: ("Forbidden", "the server does not allow access to the requested resource"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    406: ("NotAcceptable", "the server was unable to respond with a content type that the client supports"),
    409: ("Conflict", "the server reported a conflict"),
    413: ("RequestEntityTooLarge", "the request is too large for the server"),
    415: ("UnsupportedMediaType", "the body of the request was in an unknown format"),
    422: ("Invalid", "the server rejected our request due to an error in our request"),
    429: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
    500: ("InternalError", "an error on the server has prevented the request from succeeding"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "the server was unable to return a response in the time allotted"),
}

_PAGE_CHARACTERS = 80
_STATUS = msgspec.json.Decoder(Status)


def error_for(status: Status) -> ApiError:
    """The exception that fits a Status."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or ApiError
    return kind(status)


def error_of(code: int, body: bytes, response: wire.Response | None = None) -> ApiError:
    """The exception for a response whose HTTP status is not 2xx, whatever its body is."""
    try:
        status = _STATUS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        status = None
    if status is not None and status.kind == "Status" and (status.reason or status.message or status.code):
        if status.code == 0:
            status = msgspec.structs.replace(status, code=code)
        return error_for(status)
    headers = response.headers if response else {}
    return error_for(_generic_status(code, body, headers.get("retry-after", ""), headers.get("content-type", "")))


def _generic_status(code: int, body: bytes, retry_after: str, content_type: str) -> Status:
    reason, message = _GENERIC.get(
        code, ("InternalError", _GENERIC[500][1]) if code >= 500 else ("Unknown", f"the server responded with {code}")
    )
    text = body[:2048].decode(errors="replace").strip()
    causes = (StatusCause(reason="UnexpectedServerResponse", message=text),) if text else ()
    details = StatusDetails(
        causes=causes, retry_after_seconds=int(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0
    )
    if text.startswith("<") or content_type.startswith("text/html"):
        # A page of some other server: the beginning is enough to recognize it.
        text = f"the answer is no Status: text/html, {_shortened(text)}"
    message = f"{message}: {text}" if text else message
    return Status(status="Failure", code=code, reason=reason, message=message, details=details)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _PAGE_CHARACTERS else f"{line[:_PAGE_CHARACTERS]}…"


def has_cause(error: BaseException, reason: str) -> bool:
    """Whether the server named this cause, as in ``has_cause(error, "NamespaceTerminating")``."""
    return isinstance(error, ApiError) and any(cause.reason == reason for cause in error.causes)


class TransportError(ConnectionError):
    """There was no response. Except for some subclasses, a write may or may not have been carried out."""


class ConnectionRefused(TransportError, ConnectionRefusedError):
    """No server listens at the address. The request was not sent."""


class ConnectFailed(TransportError):
    """No connection could be established: unknown host, TLS failure, proxy, handshake timeout. The request was not
    sent."""


class ConnectionLost(TransportError, ConnectionResetError):
    """The connection broke before the whole response was received. A write may have been carried out."""


def is_connection_lost(error: BaseException) -> bool:
    """Whether a connection broke: reset, EOF in the middle (client-go ``IsConnectionReset``, ``IsProbableEOF``)."""
    return isinstance(error, ConnectionResetError | BrokenPipeError | ConnectionAbortedError)


def is_connection_refused(error: BaseException) -> bool:
    """Whether the connection was refused: the server is down or not up yet."""
    return isinstance(error, ConnectionRefusedError)


class UndecodableObject(ValueError):
    """The server sent an object that does not fit the view it should be read with."""

    def __init__(self, description: str, error: str, raw: bytes) -> None:
        super().__init__(f"{description} cannot be read: {error}")
        self.what = description
        """``replicasets.apps default/web``"""
        self.error = error
        """The mismatch and its position: ``Expected `int`, got `str` - at `$.spec.replicas```"""
        self.raw = raw


class ConfigError(ValueError):
    """A kubeconfig, its credentials or the in-cluster configuration cannot be used; the message has the place and the
    reason."""
