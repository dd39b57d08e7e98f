"""Admission webhooks of an operator: declarations, the request that a function gets, and the response to an
AdmissionReview.

After controller-runtime ``pkg/webhook/admission`` (v0.22): functions are its ``CustomDefaulter`` and
``CustomValidator``, their errors become denials, its paths and metrics are the same.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, Status, StatusCause, StatusDetails
from pilothouse.client import Client
from pilothouse.client.decode import UNREADABLE, decoders_of
from pilothouse.client.errors import UndecodableObject
from pilothouse.env import Log
from pilothouse.operator import lenient
from pilothouse.operator.client_config import ClientConfig
from pilothouse.operator.conversion import BadReview
from pilothouse.operator.object_patch import changed_object, patch_operations

T = TypeVar("T")
Operation = Literal["CREATE", "UPDATE", "DELETE"]
OPERATIONS: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")
_CODES = {"Forbidden": 403, "Invalid": 422, "BadRequest": 400, "Conflict": 409, "NotFound": 404, "TooManyRequests": 429}

_log = Log("webhook")


class Denied(Exception):
    """The request is denied: raised by the function of a webhook, reported to the client.

    ``reason`` is one of the API's (``Forbidden``, ``Invalid``, …), and ``Invalid`` if there are ``causes``, which name
    fields.
    """

    def __init__(self, message: str, *, reason: str = "", causes: Iterable[StatusCause] = ()) -> None:
        super().__init__(message)
        self.causes: tuple[StatusCause, ...] = tuple(causes)
        """The fields that are wrong."""
        self.reason: str = reason or ("Invalid" if self.causes else "Forbidden")
        """The reason of the Status for clients."""


class UserInfo(msgspec.Struct, frozen=True):
    """The user of the request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class AdmissionRequest(Generic[T]):
    """One request to the API server, as a function of a webhook gets it.

    ``object`` is None in a DELETE, ``old_object`` in a CREATE.
    """

    def __init__(self, request: "_Request", obj: T | None, old: T | None, client: Client) -> None:
        self.object = obj
        """As it is to be stored."""
        self.old_object = old
        """As it is stored."""
        self.uid: str = request.uid
        """The uid of the review, not of an object."""
        self.operation: str = request.operation
        """``CREATE``, ``UPDATE`` or ``DELETE``."""
        self.name: str = request.name
        """Empty in a CREATE with ``generateName``."""
        self.namespace: str = request.namespace
        """Empty for cluster-scoped kinds."""
        self.user: UserInfo = request.user_info
        """The user who sent the request to the API server."""
        self.dry_run = bool(request.dry_run)
        """Nothing is stored; nothing else may be changed either."""
        self.client = client
        """For reads of the kinds in ``reads=``, from the API server instead of a cache."""
        self.warnings: list[str] = []
        """The arguments of ``warn``."""
        self._raw = request.object if obj is not None else request.old_object

    def warn(self, text: str) -> None:
        """Have the client print a warning, whether the request is allowed or not."""
        self.warnings.append(text)

    def as_dict(self) -> dict[str, Any]:
        """The object (in a DELETE the old one) with all its fields, as JSON data of the caller's own."""
        document: dict[str, Any] = msgspec.json.decode(self._raw)
        return document


Validate = Callable[[T, AdmissionRequest[T]], Awaitable[None]]
"""Returns None, or raises ``Denied``. For a DELETE it gets the old object."""
Mutate = Callable[[T, AdmissionRequest[T]], Awaitable[T | Mapping[str, Any] | None]]
"""Returns the changed object, as a view or as a dict with all its fields; None for no change."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One admission webhook; see ``App.validating`` for its fields."""

    name: str
    kind: Kind[Any]
    mutating: bool
    function: Callable[[Any, Any], Awaitable[Any]]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_seconds: int = 10
    object_selector: LabelSelector | None = None
    namespace_selector: LabelSelector | None = None
    match_conditions: dict[str, str] = {}
    reinvocation_policy: Literal["Never", "IfNeeded"] = "Never"
    reads: tuple[Kind[Any], ...] = ()

    @property
    def full_name(self) -> str:
        """``check-theme.websites.example.com``; of a core kind ``check-theme.pods.core``."""
        return f"{self.name}.{self.kind.resource}.{self.kind.group or 'core'}"

    @property
    def path(self) -> str:
        """controller-runtime's (``pkg/builder/webhook.go``), and the name."""
        verb, kind = "mutate" if self.mutating else "validate", self.kind
        return f"/{verb}-{kind.group.replace('.', '-')}-{kind.version}-{kind.kind.lower()}/{self.name}"

    def configuration(self, at: ClientConfig) -> dict[str, Any]:
        """The webhook in a ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""
        rule = {
            "apiGroups": [self.kind.group],
            "apiVersions": [self.kind.version],
            "operations": list(self.operations),
            "resources": [self.kind.resource],
            "scope": "Namespaced" if self.kind.namespaced else "Cluster",
        }
        configuration: dict[str, Any] = {
            "name": self.full_name,
            "clientConfig": at.of(self.path),
            "rules": [rule],
            "failurePolicy": self.failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": self.side_effects,
            "timeoutSeconds": self.timeout_seconds,
            "admissionReviewVersions": ["v1"],
        }
        for name, selector in (
            ("objectSelector", self.object_selector),
            ("namespaceSelector", self.namespace_selector),
        ):
            if selector is not None:
                configuration[name] = msgspec.to_builtins(selector)
        if self.match_conditions:
            conditions = self.match_conditions.items()
            configuration["matchConditions"] = [
                {"name": name, "expression": expression} for name, expression in conditions
            ]
        if self.mutating:
            configuration["reinvocationPolicy"] = self.reinvocation_policy
        return configuration


_NOTHING = msgspec.Raw(b"null")


class _GroupVersionKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    operation: str
    kind: _GroupVersionKind
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = _NOTHING
    old_object: msgspec.Raw = _NOTHING
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: _Request


async def review(webhook: Webhook, body: bytes, client: Client) -> tuple[bytes, int]:
    """The response to an AdmissionReview, and its code: 200, or that of the denial. Raises ``BadReview``."""
    try:
        request_review = msgspec.json.decode(body, type=_Review)
    except UNREADABLE as error:
        raise BadReview(f"the body is no AdmissionReview: {error}") from error
    if (request_review.api_version, request_review.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        actual = f"{request_review.kind!r} {request_review.api_version!r}"
        raise BadReview(f"expected an AdmissionReview of admission.k8s.io/v1, got {actual}")
    response, code = await _response(webhook, request_review.request, client)
    answer = {"apiVersion": request_review.api_version, "kind": request_review.kind, "response": response}
    return msgspec.json.encode(answer), code


async def _response(webhook: Webhook, review_request: _Request, client: Client) -> tuple[dict[str, Any], int]:
    response: dict[str, Any] = {"uid": review_request.uid, "allowed": True}
    kind = webhook.kind
    if review_request.kind != _GroupVersionKind(kind.group, kind.version, kind.kind):
        return _denial(
            response, review_request, 400, "BadRequest", f"{webhook.full_name} is about {kind.kind}, {kind.api_version}"
        )
    if review_request.operation not in webhook.operations:
        return _denial(
            response, review_request, 400, "BadRequest", f"{webhook.full_name} is not about {review_request.operation}"
        )
    request: AdmissionRequest[Any] | None = None
    try:
        request = _decoded(webhook, review_request, client)
        async with asyncio.timeout(webhook.timeout_seconds):
            operations = await _called(webhook, review_request, request)
        if operations:
            patch = base64.b64encode(msgspec.json.encode(operations)).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return response, 200
    except Denied as denied:
        code = _CODES.get(denied.reason, 403)
        return _denial(response, review_request, code, denied.reason, str(denied), denied.causes)
    except UndecodableObject as error:
        return _denial(response, review_request, 400, "BadRequest", str(error))
    except TimeoutError:
        text = f"{webhook.full_name} took longer than {webhook.timeout_seconds} seconds"
        return _denial(response, review_request, 504, "Timeout", text)
    except Exception as error:  # noqa: BLE001  # one request fails, not the server
        _log.exception("A function of a webhook failed", error, webhook=webhook.full_name, name=review_request.name)
        text = f"{webhook.full_name} failed: {type(error).__name__}: {error}"
        return _denial(response, review_request, 500, "InternalError", text)
    finally:
        if request is not None and request.warnings:
            response["warnings"] = request.warnings


def _decoded(webhook: Webhook, review_request: _Request, client: Client) -> AdmissionRequest[Any]:
    """Raises ``UndecodableObject`` for objects that cannot be read as the view, or are not there.

    The object of a validating webhook matches the schema; that of a mutating one is only validated afterwards, and a
    stored object may be older than the schema: both are decoded leniently.
    """
    kind = webhook.kind

    def read(raw: msgspec.Raw, *, is_lenient: bool) -> Any:
        body, what = bytes(raw), lambda: f"{kind.kind} {review_request.name}".strip()
        if body == b"null":
            return None
        return lenient.read(kind.view, body, what)[0] if is_lenient else decoders_of(kind.view).one(body, what)

    obj, old = (
        read(review_request.object, is_lenient=webhook.mutating),
        read(review_request.old_object, is_lenient=True),
    )
    if (obj is None) != (review_request.operation == "DELETE") or (old is None) != (
        review_request.operation == "CREATE"
    ):
        raise UndecodableObject(
            kind.kind, f"object and oldObject of the request do not fit its operation {review_request.operation}", b""
        )
    return AdmissionRequest(review_request, obj, old, client)


async def _called(webhook: Webhook, review_request: _Request, request: AdmissionRequest[Any]) -> list[dict[str, Any]]:
    """Call the function; returns the JSON patch of its changes."""
    obj = request.object if request.object is not None else request.old_object
    result = await webhook.function(obj, request)
    if not webhook.mutating:
        if result is not None:
            raise TypeError(f"a validating function returns None or raises Denied, got {result!r}")
        return []
    if result is None:
        return []
    try:
        original = msgspec.json.decode(review_request.object)
    except UNREADABLE as error:  # in a field that the view does not have
        raise UndecodableObject(f"{webhook.kind.kind} {review_request.name}".strip(), str(error), b"") from error
    if isinstance(result, webhook.kind.view):
        return patch_operations(original, changed_object(original, request.object, result))
    if isinstance(result, Mapping):
        return patch_operations(original, msgspec.json.decode(msgspec.json.encode(result)))
    raise TypeError(f"a mutating function returns a {webhook.kind.view.__name__}, a dict or None, got {result!r}")


def _denial(
    response: dict[str, Any],
    review_request: _Request,
    code: int,
    reason: str,
    message: str,
    causes: tuple[StatusCause, ...] = (),
) -> tuple[dict[str, Any], int]:
    details = StatusDetails(
        name=review_request.name, group=review_request.kind.group, kind=review_request.kind.kind, causes=causes
    )
    status = Status(status="Failure", message=message, reason=reason, code=code, details=details if causes else None)
    response |= {"allowed": False, "status": msgspec.to_builtins(status)}
    return response, code
