"""The core of managedFields and server-side apply: updates of the managers' field sets, without metadata.

``Owners`` maps managers to the fields that they own. ``update`` follows a completed write, ``apply`` applies a
configuration, with a conflict about fields of others unless it is forced. Managers are opaque here; ``managed_fields``
has their structure. After structured-merge-diff ``merge/update.go`` (v6).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.machinery import field_sets
from pilothouse.machinery.field_merge import merge, reconciled, remove_fields, with_named_fields
from pilothouse.machinery.field_sets import FieldSet, Path, difference, intersection, union
from pilothouse.machinery.field_walks import Comparison, compare, field_set
from pilothouse.machinery.merge_types import MergeType

Object = dict[str, Any]


class Owned(msgspec.Struct, frozen=True):
    """The fields of one manager, in one version of the API. ``applied``: by server-side apply."""

    fields: FieldSet
    version: str
    applied: bool


Owners = dict[str, Owned]
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
        self.steps: dict[Any, Any] = {}
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
    live: Object, new: Object, versions: Versions, owners: Owners, manager: str, counts: Filter
) -> tuple[Owners, Comparison]:
    """Update the managers after a write from ``live`` to ``new``.

    Changed and removed fields are removed from all other managers; ``manager`` owns changed and added fields, besides
    those that it had. Managers without fields are removed.
    """
    _reconcile(owners, versions)
    found = _remove_changed_from_others(live, new, versions, owners, manager, counts, force=True)
    mine = owners.get(manager)
    fields = mine.fields if mine is not None else field_sets.NOTHING
    fields = union(union(difference(fields, found.removed), found.modified), found.added)
    fields = counts(fields, versions.version)
    if fields:
        owners[manager] = Owned(fields, versions.version, False)
    else:
        owners.pop(manager, None)
    return owners, found


def apply(
    live: Object, config: Object, versions: Versions, owners: Owners, manager: str, counts: Filter, *, force: bool
) -> tuple[Object, Owners]:
    """Apply the configuration; returns the object and its managers.

    Fields that the manager applied before and not now are removed, unless another manager owns them. Raises
    ``ApplyConflicts`` if other managers own fields whose values change, and ``ConversionFailed``.
    """
    _reconcile(owners, versions)
    version = versions.version
    type_ = _type(versions, version)
    new = merge(live, config, type_)
    last = owners.get(manager)
    owners[manager] = Owned(counts(field_set(config, type_), version), version, True)
    if last is not None and last.fields:
        new = _prune(new, versions, owners, last)
    _remove_changed_from_others(live, new, versions, owners, manager, counts, force=force)
    return new, owners


def _type(versions: Versions, version: str) -> MergeType:
    found = versions.type_of(version)
    assert found is not None, f"{version} is served, and so has a type"
    return found


def _reconcile(owners: Owners, versions: Versions) -> None:
    for manager, owned in owners.items():
        type_ = versions.type_of(owned.version)
        if type_ is not None:
            fields = reconciled(owned.fields, type_)
            if fields is not owned.fields:
                owners[manager] = Owned(fields, owned.version, owned.applied)


def _remove_changed_from_others(
    live: Object,
    new: Object,
    versions: Versions,
    owners: Owners,
    manager: str,
    counts: Filter,
    *,
    force: bool,
) -> Comparison:
    """Remove changed fields from the other managers; returns the comparison of both objects in the version of the
    write."""
    compared: dict[str, Comparison] = {}

    def between(version: str, type_: MergeType) -> Comparison:
        found = compared.get(version)
        if found is None:
            old = versions.convert(live, versions.version, version, "failed to convert old object")
            now = versions.convert(new, versions.version, version, "failed to convert new object")
            raw = compare(old, now, type_)
            found = compared[version] = Comparison(*(counts(fields, version) for fields in raw))
        return found

    mine = between(versions.version, _type(versions, versions.version))
    conflicts: dict[str, FieldSet] = {}
    for other, owned in list(owners.items()):
        if other == manager:
            continue
        type_ = versions.type_of(owned.version)
        if type_ is None:
            # The version of these fields is no longer served.
            del owners[other]
            continue
        found = between(owned.version, type_)
        conflict = intersection(owned.fields, union(found.modified, found.added))
        if conflict:
            conflicts[other] = conflict
    if conflicts and not force:
        raise ApplyConflicts(
            [(other, path) for other in sorted(conflicts) for path in field_sets.paths(conflicts[other])]
        )
    for other, owned in list(owners.items()):
        if other == manager:
            continue
        fields = difference(owned.fields, conflicts.get(other, field_sets.NOTHING))
        fields = difference(fields, compared[owned.version].removed)
        if not fields:
            del owners[other]
        elif fields is not owned.fields:
            owners[other] = Owned(fields, owned.version, owned.applied)
    if manager in owners and not owners[manager].fields:
        del owners[manager]
    return mine


def _prune(merged: Object, versions: Versions, owners: Owners, last: Owned) -> Object:
    """Remove what was applied before, is not applied now, and has no other manager."""
    type_ = versions.type_of(last.version)
    if type_ is None:
        return merged
    source = versions.version
    failure = f"{_NOT_PRUNED}: failed to convert merged object to last applied version"
    before = versions.convert(merged, source, last.version, failure)
    named = with_named_fields(last.fields, type_)
    pruned = _object(remove_fields(before, named, type_), before)
    pruned = _add_back_owned(before, pruned, versions, owners, last.version)
    pruned = _add_back_dangling(before, pruned, named, type_)
    return versions.convert(pruned, last.version, source, _NOT_PRUNED)


_NOT_PRUNED = "failed to prune fields"


def _object(value: Any, whole: Object) -> Object:
    """An object after a removal still has a kind."""
    kept = value if isinstance(value, dict) else {}
    return {**{name: whole[name] for name in ("apiVersion", "kind") if name in whole}, **kept}


def _add_back_owned(merged: Object, pruned: Object, versions: Versions, owners: Owners, version: str) -> Object:
    managed: dict[str, FieldSet] = {version: field_sets.NOTHING}
    for owned in owners.values():
        managed[owned.version] = union(managed.get(owned.version, field_sets.NOTHING), owned.fields)
    at = version
    for target, fields in managed.items():
        type_ = versions.type_of(target)
        if type_ is None:
            continue
        failure = f"{_NOT_PRUNED}: failed add back owned items: failed to convert {{}} object at version {target}"
        merged = versions.convert(merged, at, target, failure.format("merged"))
        pruned = versions.convert(pruned, at, target, failure.format("pruned"))
        at = target
        has = with_named_fields(field_set(merged, type_), type_)
        kept = union(
            with_named_fields(field_set(pruned, type_), type_),
            with_named_fields(fields, type_),
        )
        pruned = _object(remove_fields(merged, difference(has, kept), type_), merged)
    return versions.convert(pruned, at, version, f"{_NOT_PRUNED}: failed add back owned items")


def _add_back_dangling(merged: Object, pruned: Object, last: FieldSet, type_: MergeType) -> Object:
    """Only what the manager itself had applied may be removed together with its parent."""
    kept = with_named_fields(field_set(pruned, type_), type_)
    has = with_named_fields(field_set(merged, type_), type_)
    return _object(remove_fields(merged, intersection(difference(has, kept), last), type_), merged)
