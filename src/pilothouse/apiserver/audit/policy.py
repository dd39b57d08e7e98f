"""``Policy``: which requests are recorded, at which level and at which stages (audit.k8s.io/v1). Pure."""

from typing import Final

import msgspec

NONE: Final = "None"
METADATA: Final = "Metadata"
REQUEST: Final = "Request"
REQUEST_RESPONSE: Final = "RequestResponse"
LEVELS = (NONE, METADATA, REQUEST, REQUEST_RESPONSE)
"""From the least that is recorded to the most."""

REQUEST_RECEIVED: Final = "RequestReceived"
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"
PANIC: Final = "Panic"
STAGES = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)

_ORDER = {level: order for order, level in enumerate(LEVELS)}


def is_at_least(level: str, other: str) -> bool:
    """Whether a level records what the other one records. A level that is not known is None."""
    return _ORDER.get(level, 0) >= _ORDER.get(other, 0)


class GroupResources(msgspec.Struct, frozen=True, rename="camel"):
    """Resources of one API group: ``pods``, ``pods/log``, ``pods/*``, ``*/scale`` or ``*``; none means all."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """The level of the requests that match each of these; what is empty matches any."""

    level: str = ""
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None
    """None: as the policy says."""


class Policy(msgspec.Struct, frozen=True, rename="camel"):
    """Rules in order: the first that matches counts. What no rule matches is not recorded."""

    rules: tuple[PolicyRule, ...] = ()
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool = False
