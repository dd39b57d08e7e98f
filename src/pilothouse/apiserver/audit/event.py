"""``Event``: one stage of one request (audit.k8s.io/v1), and its encodings: JSON and the legacy line.

After apiserver's ``pkg/apis/audit/v1/types.go`` and ``pkg/audit/format.go`` (v0.36).
"""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.audit.policy import REQUEST, is_at_least
from pilothouse.apiserver.audit.reader import API_VERSION
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.times import format_micro_time

TRUNCATED = "audit.k8s.io/truncated"
"""The annotation of an event whose objects were omitted."""


class UserInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] | None = None

    @staticmethod
    def of(identity: Identity | None) -> "UserInfo":
        """The user of a request; empty if the request was not authenticated."""
        if identity is None:
            return UserInfo()
        extra = {key: identity.extra[key] for key in sorted(identity.extra)}
        return UserInfo(identity.user, identity.uid, identity.groups, extra or None)


class ObjectReference(
    msgspec.Struct, omit_defaults=True, rename={"api_group": "apiGroup", "api_version": "apiVersion"}
):
    """The object of a request, from the path and completed from the body."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")
    subresource: str = ""


class AuthenticationMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The method of authentication."""

    impersonation_constraint: str


class Event(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", tag_field="kind", tag="Event"
):
    """One stage of one request. Its objects are JSON on one line."""

    api_version: str = msgspec.field(name="apiVersion")
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: UserInfo
    impersonated_user: UserInfo | None = None
    authentication_metadata: AuthenticationMetadata | None = None
    source_ips: tuple[str, ...] = msgspec.field(default=(), name="sourceIPs")
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: Mapping[str, Any] | None = None
    request_object: msgspec.Raw | None = None
    response_object: msgspec.Raw | None = None
    request_received_timestamp: str
    stage_timestamp: str
    annotations: Mapping[str, str] | None = None

    def truncated(self) -> "Event":
        """The event without its objects, with an annotation about it."""
        return msgspec.structs.replace(
            self,
            request_object=None,
            response_object=None,
            annotations=dict(sorted({**(self.annotations or {}), TRUNCATED: "true"}.items())),
        )

    @property
    def may_have_objects(self) -> bool:
        """Whether the event can be truncated."""
        return is_at_least(self.level, REQUEST)


EVENT_API_VERSION = API_VERSION
_encode = msgspec.json.Encoder().encode


def event_json(event: Event) -> bytes:
    """The event as one line of JSON."""
    return _encode(event) + b"\n"


def event_string(event: Event) -> str:
    """The event as one line of text (``--audit-log-format=legacy``), without line end."""
    user, impersonated, ref, status = event.user, event.impersonated_user, event.object_ref, event.response_status
    values = {
        "id": event.audit_id,
        "stage": event.stage,
        "ip": event.source_ips[0] if event.source_ips else "<unknown>",
        "method": event.verb,
        "user": user.username or "<none>",
        "groups": _listed(user.groups) if user.username and user.groups else "<none>",
        "as": "<self>" if impersonated is None else impersonated.username,
        "asgroups": "<lookup>" if impersonated is None or not impersonated.groups else _listed(impersonated.groups),
        "user-agent": event.user_agent,
        "namespace": "<none>" if ref is None or not ref.namespace else ref.namespace,
        "uri": event.request_uri,
    }
    fields = " ".join(f"{name}={quote(value)}" for name, value in values.items())
    response = "<deferred>" if status is None else status.get("code", 0)
    received = _without_zeros(event.request_received_timestamp)
    return f'{received} AUDIT: {fields} response="{response}"'


def timestamp(time: datetime.datetime) -> str:
    """An instant with microseconds, in UTC."""
    return format_micro_time(time)


def _listed(values: Iterable[str]) -> str:
    return ",".join(map(quote, values))


def _without_zeros(text: str) -> str:
    """As Go's RFC3339Nano, which removes trailing zeros."""
    return f"{text.removesuffix('Z').rstrip('0').rstrip('.')}Z"
