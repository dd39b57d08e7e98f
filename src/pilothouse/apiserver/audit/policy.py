"""``Policy``: which requests are recorded, at which level and at which stages (audit.k8s.io/v1). Pure."""

from typing import Final

import msgspec

NONE: Final = "None"
METADATA: Final = "Metadata"
REQUEST: Final = "Request"
REQUEST_RESPONSE: Final = "RequestResponse"
LEVELS = (NONE, METADATA, REQUEST, REQUEST_RESPONSE)
"""From the lowest to the highest."""

REQUEST_RECEIVED: Final = "RequestReceived"
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"
PANIC: Final = "Panic"
STAGES = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)

_ORDER = {level: order for order, level in enumerate(LEVELS)}


def is_at_least(level: str, other: str) -> bool:
    """Whether a level is at least another one. An unknown level counts as None."""
    return _ORDER.get(level, 0) >= _ORDER.get(other, 0)


class GroupResources(msgspec.Struct, frozen=True, rename="camel"):
    """Resources of one API group: ``pods``, ``pods/log``, ``pods/*``, ``*/scale`` or ``*``; empty for all."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """The level of requests that match all of these fields; an empty field matches everything."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None
    """None: as in the policy."""


class Policy(msgspec.Struct, frozen=True, rename="camel"):
    """Rules in order: the first match applies. Requests without a match are not recorded."""

    rules: tuple[PolicyRule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False
