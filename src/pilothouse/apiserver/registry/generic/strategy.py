"""``Strategy``: how a resource is created, updated, deleted, validated and stored (``rest.RESTCreateStrategy`` etc.).

The base class is the strategy of a resource without special rules; kinds override attributes and methods. Methods that
prepare an object change it in place; methods that validate change nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.selection_predicate import (
    METADATA_FIELDS,
    NAME_ONLY,
    AttributeReader,
    Fields,
)
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.names import dns_subdomain_errors, generated_name

KeptOnStatusUpdate = Literal["spec", "labels", "user metadata", "metadata", "pod"]
"""The metadata that a write to /status does not change, in addition to all fields outside of metadata and status:

* ``spec``: none; labels, annotations and finalizers may change
* ``labels``: labels
* ``user metadata``: labels, annotations, finalizers and owner references
* ``metadata``: all
* ``pod``: owner references and the deletion timestamp
"""

Step = Literal["object meta", "object meta update", "object", "additional", "update"]
"""A step of the validation (``generic.validation``):

* ``object meta``: ``ValidateObjectMeta``
* ``object meta update``: ``ValidateObjectMetaUpdate``
* ``object``: the object without metadata (``validate``, on updates ``validate_object_on_update``)
* ``additional``: parts of the object that upstream validates separately (``validate_additional``)
* ``update``: the change (``validate_update``, for writes to /status ``validate_status_update``)
"""


class Strategy:
    """The strategy of a resource without special rules."""

    generation_fields: Sequence[str] = ()
    """Top-level fields whose change increments ``metadata.generation``; if empty, the kind has no generation."""
    generation_on_create = True
    allow_unconditional_update = True
    """Whether a PUT without a resource version is accepted (``AllowUnconditionalUpdate``)."""
    allow_create_on_update = False
    """Whether a PUT to a name that does not exist creates the object (``AllowCreateOnUpdate``)."""
    deprecation_warnings: Sequence[str] = ()
    """Warnings in the responses to all requests for the resource."""
    return_deleted_object = False
    """Whether the response to a DELETE is the deleted object rather than a Status (``ReturnDeletedObject``)."""
    orphans_by_default = False
    """Whether a DELETE without a propagation policy orphans the dependents."""
    has_renewal_path = False
    """Whether PUTs that change only ``spec.renewTime`` have a fast path (``endpoints.renewal``)."""
    delete_warning = ""
    """The warning for a DELETE without a propagation policy."""
    non_orphan_policy: Literal["Background", "Foreground"] = "Background"
    """The propagation policy of a DELETE with ``orphanDependents: false``."""
    garbage_collected = True
    """Whether DELETE may add the garbage collector's finalizers."""
    graceful = False
    """Whether DELETE has a grace period (``RESTGracefulDeleteStrategy``)."""
    checks_delete_preconditions = False
    """Whether upstream's storage of the kind checks the preconditions of a DELETE itself, before the generic check."""
    increments_generation_on_delete = True
    keeps_status_on_create = False
    has_status = False
    """Whether upstream serializes ``status`` even if it is empty."""
    empty_status: Mapping[str, Any] = {}
    """The fields of an empty status that upstream serializes."""
    selects_by_map = False
    """Whether spec.selector is a map of labels, not a LabelSelector."""
    kept_on_status_update: KeptOnStatusUpdate = "spec"
    disabled_gates: frozenset[str] = frozenset()
    """The configurable feature gates that are disabled; ``drop_disabled_fields`` drops their fields."""
    reset_fields: Mapping[str, Sequence[tuple[str, ...]]] = {}
    """Subresource → the fields that its writes never change, and so never own (``GetResetFields``), if they do not
    follow from the other attributes."""
    group_in_errors: str | None = None
    """The group in validation errors, if it is not the group of the resource."""
    validate_name: Callable[[str], list[str]] = staticmethod(dns_subdomain_errors)
    selectable: Fields = {}
    """Selectable fields in addition to the two of metadata: field label → path."""
    selectable_defaults: Mapping[str, str] = {}
    selectable_fallbacks: Fields = {}
    """Field label → the path that is used if the value at the one in ``selectable`` is empty."""
    selectable_namespace = True

    create_steps: Sequence[Step] = ("object meta", "object")
    """The steps of upstream's ``Validate``. An error that is found twice is reported twice."""
    update_steps: Sequence[Step] = ("object meta update", "object", "update")
    """The steps of upstream's ``ValidateUpdate``, after the validation of metadata that is common to all kinds."""
    status_steps: Sequence[Step] = ("object meta update", "update")
    """The steps for writes to /status."""
    kube_finalizers = True
    """Whether finalizers without a domain must be standard finalizers (``validateKubeFinalizerName``)."""
    validates_generate_name = True
    generated_name: Callable[[str, str], str] = staticmethod(generated_name)
    """The name from ``generateName`` and a random suffix (``names.NameGenerator``)."""

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            assert hasattr(self, name), f"a strategy has no {name}"
            setattr(self, name, value)
        self.fields: Fields = {**(METADATA_FIELDS if self.selectable_namespace else NAME_ONLY), **self.selectable}
        self.attributes = AttributeReader(self.fields, self.selectable_defaults, self.selectable_fallbacks)

    def name_errors(self, obj: Object) -> Callable[[str], list[str]]:
        """The function that validates the name of this object."""
        return self.validate_name

    # Preparing

    def decode_unions(self, obj: Object) -> None:
        """Decode fields that have no single type in the table of types, in place. Raises ``DecodeError``."""

    def set_defaults(self, obj: Object) -> None:
        """Set defaults. Called for every write, before admission."""

    def round_tripped(self, obj: Object) -> Object:
        """The object after upstream's conversion to the internal version and back, from which managedFields are
        computed."""
        return obj

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        """Drop fields of disabled feature gates. The manager who sent them owns them nevertheless.

        Called before ``prepare_for_create`` (``old`` is None) and ``prepare_for_update``.
        """

    def defaulted_when_read(self, obj: Object) -> bool:
        """Whether upstream sets a default only when it decodes the stored object after its creation. The first update
        is then written even if it changes nothing."""
        return False

    def set_timestamps(self, obj: Object, now: str) -> None:
        """Set missing times (``timeAdded`` of taints). Called before ``prepare_for_create`` and
        ``prepare_for_update``."""

    def record_requester(self, obj: Object, identity: Identity) -> None:
        """Record the user who creates the object, for kinds with such fields. Called before ``prepare_for_create``."""

    def prepare_for_create(self, obj: Object, now: str) -> None:
        """Set and clear the fields that the server owns, before a create. ``status`` has been cleared."""

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Set and clear the fields that the server owns, before an update of the main resource. ``status`` has been
        reset to the stored one."""

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        """Set and clear the fields that the server owns, before an update of /status. All other fields have been reset
        to the stored ones."""

    def canonicalize(self, obj: Object) -> None:
        """Set empty fields that upstream serializes (``Canonicalize``). Called after validation."""
        if self.has_status:
            status = obj.get("status")
            if status is None:
                obj["status"] = dict(self.empty_status)
            else:
                for name, value in self.empty_status.items():
                    status.setdefault(name, value)

    # Validating

    def warnings_before_create(self, obj: Object) -> Iterable[str]:
        """Warnings about fields that ``prepare_for_create`` replaces. Called before it."""
        return ()

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        """Warnings for the client, after validation (``WarningsOnCreate``)."""
        return ()

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        """The same for an update of the main resource (``WarningsOnUpdate``)."""
        return ()

    def warnings_on_status_update(self, obj: Object, old: Object) -> Iterable[str]:
        """The same for an update of /status."""
        return ()

    def validate(self, obj: Object) -> ErrorList:
        """The errors in an object without its metadata."""
        return []

    def validate_additional(self, obj: Object) -> ErrorList:
        return []

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        """``validate`` for an update; kinds override it to accept unchanged invalid fields (ratcheting)."""
        return self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return []

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return []

    def increments_generation(self, obj: Object, old: Object) -> bool:
        """Whether the change increments ``metadata.generation``."""
        return any(obj.get(name) != old.get(name) for name in self.generation_fields)

    def error_group(self, info: ResourceInfo) -> str:
        return info.group if self.group_in_errors is None else self.group_in_errors

    # Deleting

    def before_delete(self, obj: Object, now: str) -> Literal["", "mark", "mark only", "wait"]:
        """Deletion rules of kinds with their own (Namespaces, CustomResourceDefinitions).

        "mark": the object has been marked for deletion and is stored; "mark only": the propagation policy is also
        ignored. "wait": the object is being deleted already, and does not change. "": the generic rules apply.
        """
        return ""

    def should_delete_during_update(self, obj: Object) -> bool:
        """Whether an update removes the object, which is being deleted and has no finalizers left
        (``ShouldDeleteDuringUpdate``)."""
        return True

    def grace_period(self, obj: Object, requested: int | None) -> int:
        """The grace period of a DELETE in seconds; called only if ``graceful``."""
        return 0

    # Storing

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return info

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        """The object in the storage version. May share parts with ``obj``."""
        return obj

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        """A stored object in the version of ``info``. This base class is for resources with one version: any other
        stored version is an error."""
        raise errors.corrupt(info.prefix, f"no {info.kind} of {info.api_version}")

    # Selecting

    def unsupported_field(self, path: str) -> str:
        """The message for a field selector that the resource does not support."""
        if self.selectable or not self.selectable_namespace:
            return f"field label not supported: {path}"
        return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
