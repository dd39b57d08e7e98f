"""Who owns what after a write: the heart of managedFields and server-side apply, without objects' own metadata.

``Owners`` maps managers to the fields that they own. ``update`` follows a write that has been made already, ``apply``
makes one of a configuration, and rejects to take what others own unless it is forced to. Managers are opaque here;
``managed_fields`` knows what they are made of. After structured-merge-diff ``merge/update.go`` (v6).
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
    """What one manager owns, in the terms of one version of the API. ``applied``: by server-side apply."""

    fields: FieldSet
    version: str
    applied: bool


Owners = dict[str, Owned]
"""By manager. The functions below change the dict they are given and return it."""

Filter = Callable[[FieldSet, str], FieldSet]
"""What of a set of fields counts in a version; the rest is reset by the resource, and owned by no manager."""


class ApplyConflicts(Exception):
    """Others own what was to be applied: (manager, path), managers and paths in order."""

    def __init__(self, conflicts: list[tuple[str, Path]]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts

    @property
    def fields(self) -> FieldSet:
        return field_sets.of_paths(*(path for _manager, path in self.conflicts))


class ConversionFailed(Exception):
    """An object cannot be had in the version that a manager wrote in."""


class Versions:
    """The types of an object in the versions that managers wrote in, and its forms there.

    ``type_of`` is None for a version that is not served any more. ``convert`` is only asked for versions that have a
    type, gives the object in that version, and raises ``ConversionFailed``. ``fixed``: types are those that entries
    were written under.
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
        """What ``managed_fields`` remembers of differences between objects of these types."""

    def convert(self, obj: Object, source: str, target: str, failure: str) -> Object:
        """The object of one version in another. Raises ``ConversionFailed``, which begins with ``failure``."""
        if source == target:
            return obj
        try:
            return self._convert(obj, source, target)
        except ConversionFailed as error:
            raise ConversionFailed(f"{failure}: {error}") from None


def update(
    live: Object, new: Object, versions: Versions, owners: Owners, manager: str, counts: Filter
) -> tuple[Owners, Comparison]:
    """Follow a write that makes ``new`` of ``live``.

    Fields that were changed or removed are taken from all others; ``manager`` owns what has been changed or added,
    besides what it had. An entry that nothing is left of goes.
    """
    _reconcile(owners, versions)
    found = _settle(live, new, versions, owners, manager, counts, force=True)
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
    """The object with the configuration applied, and who owns what then.

    What the manager applied the last time and does not now goes, unless another manager owns it. Raises
    ``ApplyConflicts`` when others own what would get another value, and ``ConversionFailed``.
    """
    _reconcile(owners, versions)
    version = versions.version
    type_ = _type(versions, version)
    new = merge(live, config, type_)
    last = owners.get(manager)
    owners[manager] = Owned(counts(field_set(config, type_), version), version, True)
    if last is not None and last.fields:
        new = _prune(new, versions, owners, last)
    _settle(live, new, versions, owners, manager, counts, force=force)
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


def _settle(
    live: Object,
    new: Object,
    versions: Versions,
    owners: Owners,
    manager: str,
    counts: Filter,
    *,
    force: bool,
) -> Comparison:
    """Take from the others what has changed; what lies between the two objects in the version of the write."""
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
            # What these fields are is not known any more.
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
    """Take out what was applied the last time, is not now, and has no other owner."""
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
    """What is left of an object has a kind."""
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
    """Only what the manager itself had applied may go with something else that does."""
    kept = with_named_fields(field_set(pruned, type_), type_)
    has = with_named_fields(field_set(merged, type_), type_)
    return _object(remove_fields(merged, intersection(difference(has, kept), last), type_), merged)
