"""``metadata`` of any object: what the server sets on it, what a client may change, and what is wrong with it.

After apimachinery's ``pkg/api/validation/objectmeta.go`` and apiserver's ``pkg/registry/rest/{create,update}.go``
(v0.36). managedFields is ``ownership``'s.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.selectors import label_problems_in
from pilothouse.machinery.names import path_segment_errors, qualified_name_errors

MAX_ANNOTATIONS = 256 * 1024
STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_KEPT_ON_UPDATE = (
    "uid",
    "creationTimestamp",
    "generation",
)
_GONE_ALREADY = ("deletionTimestamp", "deletionGracePeriodSeconds")
DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject "
    "such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def keep_system_fields(metadata: Object, old: Object) -> None:
    """Before an update: what only the server may change is as stored, whatever the client sent."""
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
    """Reset these fields to what is stored."""
    for name in names:
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)


def without_duplicate_owners(metadata: Object) -> list[str]:
    """Drop repeated owner references; the warnings to send."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) == 1:
        return []
    kept: list[Any] = []
    repeated: list[str] = []
    for owner in owners:
        if owner in kept:
            repeated.append(owner.get("uid") or "")
        else:
            kept.append(owner)
    if not repeated:
        return []
    metadata["ownerReferences"] = kept
    return [DUPLICATE_OWNERS.format(", ".join(dict.fromkeys(repeated)))]


def validate(metadata: Object, name_problems: Callable[[str], list[str]]) -> list[FieldError]:
    """What is wrong with the metadata of an object that is to be created."""
    problems: list[FieldError] = []
    prefix = metadata.get("generateName")
    if prefix:
        # The name is not made yet when upstream looks at the prefix, so a trailing dash is masked.
        masked = prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        problems += [errors.invalid_value("metadata.generateName", prefix, text) for text in name_problems(masked)]
    name = metadata.get("name") or ""
    if not name:
        problems.append(errors.required("metadata.name", "name or generateName is required"))
    else:
        problems += [errors.invalid_value("metadata.name", name, text) for text in name_problems(name)]
    return problems + validate_user_fields(metadata)


def validate_path_segment(metadata: Object) -> list[FieldError]:
    """What keeps a name out of a URL. Upstream looks at it where nothing else is wrong."""
    name = metadata["name"]
    return [errors.invalid_value("metadata.name", name, text) for text in path_segment_errors(name)]


def validate_user_fields(metadata: Object) -> list[FieldError]:
    """What is wrong with labels, annotations, owner references and finalizers."""
    problems: list[FieldError] = []
    if metadata.get("labels"):
        problems += label_problems_in(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        problems += annotation_problems(metadata["annotations"], "metadata.annotations")
    if metadata.get("ownerReferences"):
        problems += _owner_problems(metadata["ownerReferences"])
    if metadata.get("finalizers"):
        problems += _finalizer_problems(metadata["finalizers"])
    return problems


def annotation_problems(annotations: Object, path: str) -> list[FieldError]:
    """What is wrong with a map of annotations."""
    problems: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        problems += [errors.invalid_value(path, key, text) for text in qualified_name_errors(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > MAX_ANNOTATIONS:
        problems.append(errors.too_long(path, MAX_ANNOTATIONS))
    return problems


def _owner_problems(owners: Sequence[Object]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    problems: list[FieldError] = []
    controller: Object | None = None
    for owner in owners:
        api_version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
        group, _separator, version = api_version.rpartition("/")
        if not version:
            problems.append(errors.invalid_value(f"{path}.apiVersion", api_version, "version must not be empty"))
        problems += [
            errors.invalid_value(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if kind == "Event" and not group and version == "v1":
            problems.append(errors.invalid_value(path, owner, f"{api_version and '/v1'}, Kind=Event {_NO_OWNER}"))
        if owner.get("controller"):
            if controller is None:
                controller = owner
            else:
                problems.append(
                    errors.invalid_value(
                        path,
                        list(owners),
                        'Only one reference can have Controller set to true. Found "true" in references for '
                        f"{controller.get('kind')}/{controller.get('name')} and {kind}/{owner.get('name')}",
                    )
                )
    return problems


_NO_OWNER = "is disallowed from being an owner"


def finalizer_name_problems(finalizers: Sequence[str], field: str) -> list[FieldError]:
    """What is wrong with the names of finalizers."""
    problems: list[FieldError] = []
    for position, name in enumerate(finalizers):
        path = f"{field}[{position}]"
        problems += [errors.invalid_value(path, name, text) for text in qualified_name_errors(name)]
        if "/" not in name and name not in STANDARD_FINALIZERS:
            problems.append(
                errors.invalid_value(path, name, "name is neither a standard finalizer name nor is it fully qualified")
            )
    return problems


def _finalizer_problems(finalizers: Sequence[str]) -> list[FieldError]:
    problems = finalizer_name_problems(finalizers, "metadata.finalizers")
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        problems.append(
            errors.invalid_value(
                "metadata.finalizers",
                list(finalizers),
                "finalizer orphan and foregroundDeletion cannot be both set",
            )
        )
    return problems


def validate_update(metadata: Object, old: Object) -> list[FieldError]:
    """What is wrong with a change of metadata. What is unchanged was valid before."""
    problems: list[FieldError] = []
    if old.get("deletionTimestamp"):
        known = old.get("finalizers") or ()
        added = [name for name in metadata.get("finalizers") or () if name not in known]
        if added:
            listed = ", ".join(errors.shown(name) for name in added)
            problem = errors.not_allowed(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}",
            )
            # Upstream validates the metadata of an update in two places, and lists the cause twice.
            problems += [problem, problem]
    problems += [
        errors.invalid_value(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in _GONE_ALREADY
        if metadata.get(name) != old.get(name)
    ]
    changed = {
        name: value
        for name in ("labels", "annotations", "ownerReferences", "finalizers")
        if (value := metadata.get(name)) and value != old.get(name)
    }
    if changed:
        problems += validate_user_fields(changed)
    return problems
