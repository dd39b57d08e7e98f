"""``metadata`` of any object: the fields that only the server sets, and validation.

After apimachinery's ``pkg/api/validation/objectmeta.go`` and apiserver's ``pkg/registry/rest/{create,update}.go``
(v0.36). ``managed_fields`` has managedFields.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pilothouse.apiserver.field_errors import (
    ErrorList,
    FieldError,
    forbidden,
    format_value,
    internal_value,
    invalid,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_annotations, validate_labels
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE
from pilothouse.machinery.names import path_segment_errors, path_segment_prefix_errors, qualified_name_errors

STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_KEPT_ON_UPDATE = (
    "uid",
    "creationTimestamp",
    "generation",
)
_IMMUTABLE = ("name", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


_canonical = msgspec.json.Encoder(order="sorted").encode


def keep_system_fields(metadata: Object, old: Object) -> None:
    """Before an update: reset the fields that only the server sets to the stored values."""
    for name in _KEPT_ON_UPDATE:
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old:
        metadata.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])


def keep_user_fields(metadata: Object, old: Object, names: Sequence[str]) -> None:
    """Reset these fields to the stored values."""
    for name in names:
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)


def dedup_owner_references(metadata: Object, *, admitted: bool) -> list[str]:
    """Remove duplicate owner references; returns the warnings to send. ``admitted``: called after mutating admission.

    Upstream does this before it updates managed fields and again after admission. For patches managed fields are
    updated first (``dedupOwnerReferencesAndAddWarning``, apiserver ``pkg/endpoints/handlers/{create,update,patch}.go``,
    v0.36).
    """
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1:
        return []
    unique_owners: dict[bytes, Any] = {}
    duplicate_uids: list[str] = []
    for owner in owners:
        if unique_owners.setdefault(_canonical(owner), owner) is not owner:
            duplicate_uids.append(owner.get("uid") or "")
    if not duplicate_uids:
        return []
    metadata["ownerReferences"] = list(unique_owners.values())
    suffix = " after mutating admission happens" if admitted else ""
    return [_DUPLICATE_OWNERS.format(suffix, ", ".join(duplicate_uids))]


def validate_object_meta(
    metadata: Object,
    name_errors: Callable[[str], list[str]],
    *,
    kube_finalizers: bool = True,
    generate_name: bool = True,
) -> ErrorList:
    """``ValidateObjectMeta`` of a new object. ``name_errors`` validates a name (``ValidateNameFunc``).

    ``kube_finalizers``: also require that finalizers without a domain are standard ones
    (``validateKubeFinalizerName``). ``generate_name`` False (``ValidateObjectMetaWithOpts``): the prefix is not
    validated.
    """
    errors: ErrorList = []
    prefix = metadata.get("generateName")
    if prefix and generate_name:
        errors += _validate_generate_name(prefix, name_errors)
    name = metadata.get("name") or ""
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [invalid("metadata.name", name, msg) for msg in name_errors(name)]
    generation = metadata.get("generation") or 0
    if generation < 0:
        errors.append(invalid("metadata.generation", generation, NON_NEGATIVE))
    errors += _validate_user_fields(metadata)
    finalizers = metadata.get("finalizers")
    if finalizers:
        errors += _validate_finalizers(finalizers)
        if kube_finalizers:
            errors += _validate_kube_finalizers(finalizers)
    return errors


def _validate_generate_name(prefix: str, name_errors: Callable[[str], list[str]]) -> ErrorList:
    if name_errors is path_segment_errors:
        msgs = path_segment_prefix_errors(prefix)
    else:
        # Upstream validates the prefix before the name is generated, and masks a trailing dash (``maskTrailingDash``).
        msgs = name_errors(prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix)
    return [invalid("metadata.generateName", prefix, msg) for msg in msgs]


def validate_common(metadata: Object, *, validated_by_kind: bool) -> ErrorList:
    """``ValidateObjectMeta`` with ``ValidatePathSegmentName``, which ``BeforeCreate`` applies to every new object after
    the validation of its kind. ``validated_by_kind``: the kind has already validated the metadata, and only names are
    validated."""
    if not validated_by_kind:
        return validate_object_meta(metadata, path_segment_errors, kube_finalizers=False)
    name, prefix = metadata["name"], metadata.get("generateName")
    all_errors = _validate_generate_name(prefix, path_segment_errors) if prefix else []
    return all_errors + [invalid("metadata.name", name, msg) for msg in path_segment_errors(name)]


class MetadataErrors(msgspec.Struct, frozen=True):
    """The errors in the metadata of an update. ``object_meta``: of ``ValidateObjectMeta``; ``update``: of
    ``ValidateObjectMetaUpdate``. ``common_…`` are the rules for all kinds; the others include the rules of built-in
    kinds for finalizers."""

    common_object_meta: Sequence[FieldError] = ()
    common_update: Sequence[FieldError] = ()
    object_meta: Sequence[FieldError] = ()
    update: Sequence[FieldError] = ()


_NO_ERRORS = MetadataErrors()


def validate_update(
    metadata: Object, old: Object, name_errors: Callable[[str], list[str]], *, kube_finalizers: bool = True
) -> MetadataErrors:
    """Validate the metadata of an update. Fields that do not change are not validated again."""
    changed = {
        name: value
        for name in ("labels", "annotations", "ownerReferences", "finalizers", "generateName")
        if (value := metadata.get(name)) and value != old.get(name)
    }
    update = _validate_object_meta_change(metadata, old)
    if not changed and not update:
        return _NO_ERRORS
    user_fields = _validate_user_fields(changed)
    update += user_fields
    prefix, finalizers = changed.get("generateName"), changed.get("finalizers") or ()
    object_meta = user_fields + _validate_finalizers(finalizers)
    kind_errors = _validate_kube_finalizers(finalizers) if kube_finalizers else []
    return MetadataErrors(
        common_object_meta=(_validate_generate_name(prefix, path_segment_errors) if prefix else []) + object_meta,
        common_update=update,
        object_meta=(_validate_generate_name(prefix, name_errors) if prefix else []) + object_meta + kind_errors,
        update=update + kind_errors,
    )


def _validate_user_fields(metadata: Object) -> ErrorList:
    """Labels, annotations and owner references."""
    errors: ErrorList = []
    if metadata.get("labels"):
        errors += validate_labels(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        errors += validate_annotations(metadata["annotations"], "metadata.annotations")
    if metadata.get("ownerReferences"):
        errors += _validate_owner_references(metadata["ownerReferences"])
    return errors


def _validate_owner_references(owners: Sequence[Object]) -> ErrorList:
    path = "metadata.ownerReferences"
    errors: ErrorList = []
    controller: Object | None = None
    for owner in owners:
        api_version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
        group, _separator, version = api_version.rpartition("/")
        if not version:
            errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        errors += [
            invalid(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if kind == "Event" and not group and version == "v1":
            value = internal_value("meta.OwnerReference", owner)
            errors.append(invalid(path, value, f"{api_version and '/v1'}, Kind=Event {_BANNED_OWNER}"))
        if owner.get("controller"):
            if controller is None:
                controller = owner
            else:
                errors.append(
                    invalid(
                        path,
                        internal_value("[]meta.OwnerReference", owners),
                        'Only one reference can have Controller set to true. Found "true" in references for '
                        f"{controller.get('kind')}/{controller.get('name')} and {kind}/{owner.get('name')}",
                    )
                )
    return errors


_BANNED_OWNER = "is disallowed from being an owner"


def validate_finalizer_name(finalizers: Sequence[str], field: str) -> ErrorList:
    """The errors in the names of finalizers."""
    errors: ErrorList = []
    for position, name in enumerate(finalizers):
        path = f"{field}[{position}]"
        errors += [invalid(path, name, msg) for msg in qualified_name_errors(name)]
        if not _is_known_finalizer(name):
            errors.append(invalid(path, name, _INVALID_FINALIZER))
    return errors


def _validate_kube_finalizers(finalizers: Sequence[str]) -> ErrorList:
    """The additional rule for finalizers of built-in kinds (``validateKubeFinalizerName``)."""
    return [
        invalid(f"metadata.finalizers[{position}]", name, _INVALID_FINALIZER)
        for position, name in enumerate(finalizers)
        if not _is_known_finalizer(name)
    ]


_INVALID_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"


def _is_known_finalizer(name: str) -> bool:
    return "/" in name or name in STANDARD_FINALIZERS


def _validate_finalizers(finalizers: Sequence[str]) -> ErrorList:
    errors = [invalid("metadata.finalizers", name, msg) for name in finalizers for msg in qualified_name_errors(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        errors.append(
            invalid(
                "metadata.finalizers", list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set"
            )
        )
    return errors


def _validate_object_meta_change(metadata: Object, old: Object) -> ErrorList:
    errors: ErrorList = []
    if old.get("deletionTimestamp"):
        old_finalizers = set(old.get("finalizers") or ())
        new_finalizers = sorted({name for name in metadata.get("finalizers") or () if name not in old_finalizers})
        if new_finalizers:
            finalizers_text = ", ".join(format_value(name) for name in new_finalizers)
            errors.append(
                forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{finalizers_text}}}",
                )
            )
    return errors + [
        invalid(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in _IMMUTABLE
        if metadata.get(name) != old.get(name)
    ]
