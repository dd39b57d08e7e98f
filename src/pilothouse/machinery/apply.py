"""The core of managedFields and server-side apply: updates of the managers' field sets, without metadata.

``ManagedFields`` maps managers to the fields that they own. ``update`` follows a completed write, ``apply`` applies a
configuration, with a conflict about fields of others unless it is forced. Managers are opaque here; ``managed_fields``
has their structure. After structured-merge-diff ``merge/update.go`` (v6).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.machinery import field_sets
from pilothouse.machinery.deep_equal import with_distinct_booleans
from pilothouse.machinery.field_merge import (
    ensure_named_fields_are_members,
    merge,
    reconcile_field_set_with_schema,
    remove_fields,
)
from pilothouse.machinery.field_sets import FieldSet, Path, difference, intersection, union
from pilothouse.machinery.field_walks import Comparison, compare, field_set
from pilothouse.machinery.merge_types import MergeType

Object = dict[str, Any]


class VersionedSet(msgspec.Struct, frozen=True):
    """The fields of one manager, in one version of the API. ``applied``: by server-side apply."""

    fields: FieldSet
    version: str
    applied: bool


ManagedFields = dict[str, VersionedSet]
"""By manager. The functions below change the given dict and return it."""

Filter = Callable[[FieldSet, str], FieldSet]
"""The fields that are tracked in a version; the others are reset by the resource (``GetResetFields``), and have no
manager."""


class ApplyConflicts(Exception):
    """Conflicts with other managers: (manager, path), managers and paths in order."""

    def __init__(self, conflicts: list[tuple[str, Path]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts

    @property
    def fields(self) -> FieldSet:
        return field_sets.of_paths(*(path for _manager, path in self.conflicts))


class ConversionFailed(Exception):
    """An object cannot be converted to the version of a manager."""


class Versions:
    """The types of an object in the versions of its managers, and conversion between them.

    ``type_of`` is None for a version that is no longer served. ``convert`` is only called for versions with a type; it
    returns the object in that version, and raises ``ConversionFailed``. ``fixed``: types are those that entries were
    written under.
    """

    def __init__(
        self,
        version: str,
        type_of: Callable[[str], MergeType | None],
        convert: Callable[[Object, str, str], Object],
        *,
        fixed: bool = False,
    ) -> None:
        self.fixed = fixed
        self.version = version
        self.type_of = type_of
        self._convert = convert
        self.cached_updates: dict[Any, Any] = {}
        """Cache of ``managed_fields`` for differences between objects of these types."""

    def convert(self, obj: Object, source: str, target: str, failure: str) -> Object:
        """Convert the object from one version to another. Raises ``ConversionFailed``, whose text begins with
        ``failure``."""
        if source == target:
            return obj
        try:
            return self._convert(obj, source, target)
        except ConversionFailed as error:
            raise ConversionFailed(f"{failure}: {error}") from None


def update(
    live: Object, new: Object, versions: Versions, managers: ManagedFields, manager: str, ignore_filter: Filter
) -> tuple[ManagedFields, Comparison]:
    """Update the managers after a write from ``live`` to ``new``.

    Changed and removed fields are removed from all other managers; ``manager`` owns changed and added fields, besides
    those that it had. Managers without fields are removed.
    """
    _reconcile_managed_fields_with_schema_changes(managers, versions)
    comparison = _remove_changed_from_others(live, new, versions, managers, manager, ignore_filter, force=True)
    manager_set = managers.get(manager)
    fields = manager_set.fields if manager_set is not None else field_sets.NOTHING
    fields = union(union(difference(fields, comparison.removed), comparison.modified), comparison.added)
    fields = ignore_filter(fields, versions.version)
    if fields:
        managers[manager] = VersionedSet(fields, versions.version, False)
    else:
        managers.pop(manager, None)
    return managers, comparison


def apply(
    live: Object,
    config: Object,
    versions: Versions,
    managers: ManagedFields,
    manager: str,
    ignore_filter: Filter,
    *,
    force: bool,
) -> tuple[Object, ManagedFields]:
    """Apply the configuration; returns the object and its managers.

    Fields that the manager applied before and not now are removed, unless another manager owns them. Raises
    ``ApplyConflicts`` if other managers own fields whose values change, and ``ConversionFailed``.
    """
    _reconcile_managed_fields_with_schema_changes(managers, versions)
    version = versions.version
    type_ = _type(versions, version)
    new = merge(live, config, type_)
    last_set = managers.get(manager)
    managers[manager] = VersionedSet(ignore_filter(field_set(config, type_), version), version, True)
    if last_set is not None and last_set.fields:
        new = _prune(new, versions, managers, last_set)
    compared = with_distinct_booleans(live, new)
    _remove_changed_from_others(live, compared, versions, managers, manager, ignore_filter, force=force)
    return new, managers


def _type(versions: Versions, version: str) -> MergeType:
    type_ = versions.type_of(version)
    assert type_ is not None, f"{version} is served, and so has a type"
    return type_


def _reconcile_managed_fields_with_schema_changes(managers: ManagedFields, versions: Versions) -> None:
    for manager, manager_set in managers.items():
        type_ = versions.type_of(manager_set.version)
        if type_ is not None:
            fields = reconcile_field_set_with_schema(manager_set.fields, type_)
            if fields is not manager_set.fields:
                managers[manager] = VersionedSet(fields, manager_set.version, manager_set.applied)


def _remove_changed_from_others(
    live: Object,
    new: Object,
    versions: Versions,
    managers: ManagedFields,
    manager: str,
    ignore_filter: Filter,
    *,
    force: bool,
) -> Comparison:
    """Remove changed fields from the other managers; returns the comparison of both objects in the version of the
    write."""
    comparisons: dict[str, Comparison] = {}

    def compare_in(version: str, type_: MergeType) -> Comparison:
        comparison = comparisons.get(version)
        if comparison is None:
            versioned_old = versions.convert(live, versions.version, version, "failed to convert old object")
            versioned_new = versions.convert(new, versions.version, version, "failed to convert new object")
            unfiltered = compare(versioned_old, versioned_new, type_)
            comparison = comparisons[version] = Comparison(*(ignore_filter(fields, version) for fields in unfiltered))
        return comparison

    write_comparison = compare_in(versions.version, _type(versions, versions.version))
    conflicts: dict[str, FieldSet] = {}
    for name, manager_set in list(managers.items()):
        if name == manager:
            continue
        type_ = versions.type_of(manager_set.version)
        if type_ is None:
            # The version of these fields is no longer served.
            del managers[name]
            continue
        comparison = compare_in(manager_set.version, type_)
        conflict = intersection(manager_set.fields, union(comparison.modified, comparison.added))
        if conflict:
            conflicts[name] = conflict
    if conflicts and not force:
        raise ApplyConflicts([(name, path) for name in sorted(conflicts) for path in field_sets.paths(conflicts[name])])
    for name, manager_set in list(managers.items()):
        if name == manager:
            continue
        fields = difference(manager_set.fields, conflicts.get(name, field_sets.NOTHING))
        fields = difference(fields, comparisons[manager_set.version].removed)
        if not fields:
            del managers[name]
        elif fields is not manager_set.fields:
            managers[name] = VersionedSet(fields, manager_set.version, manager_set.applied)
    if manager in managers and not managers[manager].fields:
        del managers[manager]
    return write_comparison


def _prune(merged: Object, versions: Versions, managers: ManagedFields, last_set: VersionedSet) -> Object:
    """Remove what was applied before, is not applied now, and has no other manager."""
    type_ = versions.type_of(last_set.version)
    if type_ is None:
        return merged
    source = versions.version
    failure = f"{_NOT_PRUNED}: failed to convert merged object to last applied version"
    versioned_merged = versions.convert(merged, source, last_set.version, failure)
    last_members = ensure_named_fields_are_members(last_set.fields, type_)
    pruned = _with_kind(remove_fields(versioned_merged, last_members, type_), versioned_merged)
    pruned = _add_back_owned_items(versioned_merged, pruned, versions, managers, last_set.version)
    pruned = _add_back_dangling_items(versioned_merged, pruned, last_members, type_)
    return versions.convert(pruned, last_set.version, source, _NOT_PRUNED)


_NOT_PRUNED = "failed to prune fields"


def _with_kind(value: Any, original: Object) -> Object:
    """An object after a removal still has a kind."""
    members = value if isinstance(value, dict) else {}
    return {**{name: original[name] for name in ("apiVersion", "kind") if name in original}, **members}


def _add_back_owned_items(
    merged: Object, pruned: Object, versions: Versions, managers: ManagedFields, version: str
) -> Object:
    managed: dict[str, FieldSet] = {version: field_sets.NOTHING}
    for manager_set in managers.values():
        managed[manager_set.version] = union(managed.get(manager_set.version, field_sets.NOTHING), manager_set.fields)
    current_version = version
    for target, fields in managed.items():
        type_ = versions.type_of(target)
        if type_ is None:
            continue
        failure = f"{_NOT_PRUNED}: failed add back owned items: failed to convert {{}} object at version {target}"
        merged = versions.convert(merged, current_version, target, failure.format("merged"))
        pruned = versions.convert(pruned, current_version, target, failure.format("pruned"))
        current_version = target
        merged_set = ensure_named_fields_are_members(field_set(merged, type_), type_)
        kept_set = union(
            ensure_named_fields_are_members(field_set(pruned, type_), type_),
            ensure_named_fields_are_members(fields, type_),
        )
        pruned = _with_kind(remove_fields(merged, difference(merged_set, kept_set), type_), merged)
    return versions.convert(pruned, current_version, version, f"{_NOT_PRUNED}: failed add back owned items")


def _add_back_dangling_items(merged: Object, pruned: Object, last_applied: FieldSet, type_: MergeType) -> Object:
    """Only what the manager itself had applied may be removed together with its parent."""
    pruned_set = ensure_named_fields_are_members(field_set(pruned, type_), type_)
    merged_set = ensure_named_fields_are_members(field_set(merged, type_), type_)
    return _with_kind(
        remove_fields(merged, intersection(difference(merged_set, pruned_set), last_applied), type_), merged
    )
