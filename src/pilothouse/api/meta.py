"""``meta/v1``: metadata, selectors, conditions and statuses."""

import datetime
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class View(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of every view: immutable, read by field name, absent fields read as their zero value."""


class OwnerReference(View, frozen=True):
    """One owner of an object. At most one of them has ``controller`` set."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(View, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime.datetime | None = None
    deletion_timestamp: datetime.datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class Object(View, frozen=True):
    """Any object, with its metadata only (``PartialObjectMetadata``)."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class ListMeta(View, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectList(View, Generic[T], frozen=True):
    """A page of objects of one view."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class LabelSelectorRequirement(View, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(View, frozen=True):
    """``matchLabels`` and ``matchExpressions``, which must all match. An empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(View, frozen=True):
    """A condition (``metav1.Condition``)."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: datetime.datetime | None = None


class StatusCause(View, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(View, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(View, frozen=True):
    """The response of the API server in place of an object."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0
