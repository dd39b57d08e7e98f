"""``Strategy``: how one resource is created, updated, deleted, validated and stored (``rest.RESTCreateStrategy`` etc.).

The class below is a resource without special rules; kinds override what differs. Methods that prepare an object change
it in place; methods that validate change nothing.
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
from pilothouse.machinery.names import dns_subdomain_errors

StatusKeeps = Literal["spec", "labels", "user metadata", "metadata", "pod"]
"""What a write to /status leaves as stored besides everything outside metadata and status (apiserver.md has the table):

* ``spec``: nothing more; labels, annotations, finalizers may change
* ``labels``: labels too
* ``user metadata``: labels, annotations, finalizers and owner references too
* ``metadata``: all of it
* ``pod``: owner references and the deletion timestamp too
"""

Step = Literal["object meta", "object meta update", "object", "more", "update"]
"""One of the things that upstream validates, one after the other (``generic.validation``):

* ``object meta``: the metadata as that of an object (``ValidateObjectMeta``)
* ``object meta update``: its change (``ValidateObjectMetaUpdate``)
* ``object``: the rest of the object (``validate``, and ``validate_updated`` on an update)
* ``more``: parts of the object that upstream validates separately (``validate_more``)
* ``update``: what changes (``validate_update``, and ``validate_status_update`` on a write to /status)
"""


class Strategy:
    """The ordinary resource."""

    tracked: Sequence[str] = ()
    """Top-level fields whose change raises metadata.generation; none means generation is not kept."""
    generation_on_create = True
    allow_unconditional_update = True
    """Whether a PUT without a resource version overwrites whatever is there."""
    allow_create_on_update = False
    """Whether a PUT to a name that does not exist creates the object."""
    deprecation_warnings: Sequence[str] = ()
    """Warnings that go with every request about the resource."""
    return_deleted_object = False
    """Whether a DELETE that removes the object answers with it rather than with a Status."""
    orphans_by_default = False
    """Whether a DELETE without a propagation policy orphans the dependents."""
    renewed = False
    """Whether most writes are PUTs that change ``spec.renewTime``, which then have a short path
    (``endpoints.renewal``)."""
    delete_warning = ""
    """What a DELETE warns of that says nothing about dependents."""
    non_orphan_policy: Literal["Background", "Foreground"] = "Background"
    """The propagation policy of a DELETE with ``orphanDependents: false``."""
    garbage_collected = True
    """Whether DELETE may add the garbage collector's finalizers."""
    graceful = False
    """Whether DELETE may leave the object for a grace period."""
    checks_delete_preconditions = False
    """Whether a DELETE of its own checks preconditions, before the general one."""
    raises_generation_on_delete = True
    keeps_status_on_create = False
    has_status = False
    """Whether upstream prints a status even when it is empty."""
    empty_status: Mapping[str, Any] = {}
    """What it prints then."""
    selects_by_map = False
    """Whether spec.selector is a map of labels, not a LabelSelector."""
    status_keeps: StatusKeeps = "spec"
    disabled_gates: frozenset[str] = frozenset()
    """Feature gates that are off and whose fields ``drop_disabled_fields`` drops, where some servers have them on."""
    reset_fields: Mapping[str, Sequence[tuple[str, ...]]] = {}
    """By subresource: the fields that a write there never changes, and so never owns, where they are not those that the
    other attributes say (upstream's ``GetResetFields``)."""
    group_in_errors: str | None = None
    """The group in errors about fields, if it is not that of the resource."""
    validate_name: Callable[[str], list[str]] = staticmethod(dns_subdomain_errors)
    selectable: Fields = {}
    """Field selectors besides the two of metadata."""
    selectable_defaults: Mapping[str, str] = {}
    selectable_fallbacks: Fields = {}
    """Field label → the path that counts where the one in ``selectable`` is empty."""
    selectable_namespace = True

    create_steps: Sequence[Step] = ("object meta", "object")
    """What upstream's ``Validate`` validates, in its order. What it finds twice is listed twice."""
    update_steps: Sequence[Step] = ("object meta update", "object", "update")
    """The same of its ``ValidateUpdate``, after the metadata of any object."""
    status_steps: Sequence[Step] = ("object meta update", "update")
    """The same for writes to /status."""
    kube_finalizers = True
    """Whether finalizers without a domain must be ones that the server knows."""
    validates_generate_name = True

    def __init__(self, **differences: Any) -> None:
        for name, value in differences.items():
            assert hasattr(self, name), f"a strategy has no {name}"
            setattr(self, name, value)
        self.fields: Fields = {**(METADATA_FIELDS if self.selectable_namespace else NAME_ONLY), **self.selectable}
        self.attributes = AttributeReader(self.fields, self.selectable_defaults, self.selectable_fallbacks)

    def name_errors(self, obj: Object) -> Callable[[str], list[str]]:
        """The function that validates the name of this object."""
        return self.validate_name

    # Preparing

    def set_defaults(self, obj: Object) -> None:
        """Fill in what an absent field means. Runs on every write, before admission."""

    def converted(self, obj: Object) -> Object:
        """The object as upstream's conversion to the internal form and back leaves it: managedFields are about that."""
        return obj

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        """Drop what is behind feature gates that are off; who sent such fields owns them all the same.

        Runs before ``prepare_for_create``, where ``old`` is None, and ``prepare_for_update``.
        """

    def defaulted_when_read(self, obj: Object) -> bool:
        """Whether upstream fills something in only when it reads what a create has stored. Then the first update is
        written, whatever it changes."""
        return False

    def set_timestamps(self, obj: Object, now: str) -> None:
        """Set times that the client has not set (``timeAdded`` of taints). Runs before ``prepare_for_create`` and
        ``prepare_for_update``."""

    def record_requester(self, obj: Object, identity: Identity) -> None:
        """Record the user who creates the object, for kinds with such fields. Runs before ``prepare_for_create``."""

    def prepare_for_create(self, obj: Object, now: str) -> None:
        """Set and clear what belongs to the server, before a create. The status is cleared already."""

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """The same before an update of the object itself. The status is the stored one already."""

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        """The same before an update of the status. Everything but the status is the stored one already."""

    def canonicalize(self, obj: Object) -> None:
        """Fill in fields that upstream writes even if they are empty (``Canonicalize``). Runs after validation."""
        if self.has_status:
            status = obj.get("status")
            if status is None:
                obj["status"] = dict(self.empty_status)
            else:
                for name, value in self.empty_status.items():
                    status.setdefault(name, value)

    # Validating

    def warnings(self, obj: Object) -> Iterable[str]:
        """What the client is warned of when it creates or updates such an object. The names of pods' fields begin
        where the object says they are."""
        return ()

    def validate(self, obj: Object) -> ErrorList:
        """The errors in an object, apart from its metadata."""
        return []

    def validate_more(self, obj: Object) -> ErrorList:
        return []

    def validate_updated(self, obj: Object, old: Object) -> ErrorList:
        """``validate`` on an update, for kinds in which unchanged invalid fields are accepted (ratcheting)."""
        return self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return []

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return []

    def changed(self, obj: Object, old: Object) -> bool:
        """Whether the change raises the generation."""
        return any(obj.get(name) != old.get(name) for name in self.tracked)

    def error_group(self, info: ResourceInfo) -> str:
        return info.group if self.group_in_errors is None else self.group_in_errors

    # Deleting

    def before_delete(self, obj: Object, now: str) -> Literal["", "mark", "mark only", "wait"]:
        """The rules of kinds that are not deleted in the ordinary way (``BeforeDelete``).

        "mark": the object has been changed to say that it is being deleted, and stays; "mark only": and the propagation
        policy has no say. "wait": it is being deleted, and nothing changes. "": the ordinary rules apply.
        """
        return ""

    def should_delete_during_update(self, obj: Object) -> bool:
        """Whether an update removes the object, which is being deleted and has no finalizers left
        (``ShouldDeleteDuringUpdate``)."""
        return True

    def grace_period(self, obj: Object, requested: int | None) -> int:
        """How long a graceful DELETE leaves the object; only asked when ``graceful``."""
        return 0

    # Storing

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return info

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        """The object in the stored version. May share parts with ``obj``."""
        return obj

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        """A stored object in another version. Raises ``StatusError`` for what is none of the resource: such resources
        are stored in one version only."""
        raise errors.corrupt(info.prefix, f"no {info.kind} of {info.api_version}")

    # Selecting

    def unsupported_field(self, path: str) -> str:
        """The answer to a field selector that the resource does not support."""
        if self.selectable or not self.selectable_namespace:
            return f"field label not supported: {path}"
        return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
