"""``metadata`` of any object: what the server sets on it, what a client may change, and what is wrong with it.

After apimachinery's ``pkg/api/validation/objectmeta.go`` and apiserver's ``pkg/registry/rest/{create,update}.go``
(v0.36). managedFields is ``ownership``'s.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.judgements import ONCE, Judgements
from pilothouse.apiserver.strategies.selectors import annotation_problems, label_problems_in
from pilothouse.machinery.names import path_segment_errors, qualified_name_errors

STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
_KEPT_ON_UPDATE = (
    "uid",
    "creationTimestamp",
    "generation",
)
_GONE_ALREADY = ("deletionTimestamp", "deletionGracePeriodSeconds")
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
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


def without_duplicate_owners(metadata: Object, *, admitted: bool) -> list[str]:
    """Drop repeated owner references; the warnings to send. ``admitted``: admission has had its turn.

    Upstream does this twice, before it notes who owns what and after admission, but for patches, whose owners it notes
    first (apiserver ``pkg/endpoints/handlers/{create,update,patch}.go``, v0.36).
    """
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
    when = " after mutating admission happens" if admitted else ""
    return [_DUPLICATE_OWNERS.format(when, ", ".join(repeated))]


def validate(
    metadata: Object, name_problems: Callable[[str], list[str]], judgements: Judgements = ONCE
) -> list[FieldError]:
    """What is wrong with the metadata of an object that is to be created, by the kind's own rules. (``validate_common``
    is asked where these find nothing.)"""
    if not judgements.created:
        return []
    problems: list[FieldError] = []
    prefix = metadata.get("generateName")
    if prefix:
        # The name is not made yet when upstream looks at the prefix, so a trailing dash is masked.
        masked = prefix[:-1] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        problems += [errors.invalid_value("metadata.generateName", prefix, text) for text in name_problems(masked)]
    name = metadata.get("name") or ""
    if not name:
        problems.append(errors.required("metadata.name", _NO_NAME))
    else:
        problems += [errors.invalid_value("metadata.name", name, text) for text in name_problems(name)]
    problems += _user_field_problems(metadata)
    if metadata.get("finalizers"):
        problems += _finalizer_problems(metadata)
        if judgements.finalizers:
            problems += _own_finalizer_problems(metadata)
    return problems * judgements.created if problems else problems


def validate_common(metadata: Object, judgements: Judgements = ONCE) -> list[FieldError]:
    """What is wrong with the metadata of a new object whatever its kind. Upstream looks at it where nothing else is
    wrong, so that of what the kind has looked at only the name can be: it must fit into a path."""
    if judgements.created:
        return [
            errors.invalid_value("metadata.name", metadata["name"], e) for e in path_segment_errors(metadata["name"])
        ]
    name = metadata.get("name") or ""
    if not name:
        return [errors.required("metadata.name", _NO_NAME), *_user_field_problems(metadata)]
    problems = [errors.invalid_value("metadata.name", name, text) for text in path_segment_errors(name)]
    return problems + _user_field_problems(metadata) + _finalizer_problems(metadata)


_NO_NAME = "name or generateName is required"


def _user_field_problems(metadata: Object) -> list[FieldError]:
    """What is wrong with labels, annotations and owner references."""
    problems: list[FieldError] = []
    if metadata.get("labels"):
        problems += label_problems_in(metadata["labels"], "metadata.labels")
    if metadata.get("annotations"):
        problems += annotation_problems(metadata["annotations"], "metadata.annotations")
    if metadata.get("ownerReferences"):
        problems += _owner_problems(metadata["ownerReferences"])
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
        if not _is_known_finalizer(name):
            problems.append(errors.invalid_value(path, name, _NO_FINALIZER))
    return problems


def _own_finalizer_problems(metadata: Object) -> list[FieldError]:
    """What the server's own kinds ask of finalizers besides."""
    return [
        errors.invalid_value(f"metadata.finalizers[{position}]", name, _NO_FINALIZER)
        for position, name in enumerate(metadata.get("finalizers") or ())
        if not _is_known_finalizer(name)
    ]


_NO_FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"


def _is_known_finalizer(name: str) -> bool:
    return "/" in name or name in STANDARD_FINALIZERS


def _finalizer_problems(metadata: Object) -> list[FieldError]:
    finalizers: Sequence[str] = metadata.get("finalizers") or ()
    problems = [
        errors.invalid_value("metadata.finalizers", name, text)
        for name in finalizers
        for text in qualified_name_errors(name)
    ]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        problems.append(
            errors.invalid_value(
                "metadata.finalizers",
                list(finalizers),
                "finalizer orphan and foregroundDeletion cannot be both set",
            )
        )
    return problems


def validate_update(metadata: Object, old: Object, judgements: Judgements = ONCE) -> list[FieldError]:
    """What is wrong with a change of metadata. What is unchanged was valid before.

    Upstream looks at the metadata of an object, then at that of a change, and then the kind does both in its own way.
    """
    changed = {
        name: value
        for name in ("labels", "annotations", "ownerReferences", "finalizers")
        if (value := metadata.get(name)) and value != old.get(name)
    }
    user_fields = _user_field_problems(changed) if changed else []
    finalizers = _finalizer_problems(changed) if "finalizers" in changed else []
    own = _own_finalizer_problems(changed) if judgements.finalizers and "finalizers" in changed else []
    whole = user_fields + finalizers
    change = _change_problems(metadata, old) + user_fields
    if not whole and not change and not own:
        return []
    return whole + change + (change + own) * judgements.change + (whole + own) * judgements.whole


def _change_problems(metadata: Object, old: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    if old.get("deletionTimestamp"):
        known = old.get("finalizers") or ()
        added = [name for name in metadata.get("finalizers") or () if name not in known]
        if added:
            listed = ", ".join(errors.shown(name) for name in added)
            problems.append(
                errors.not_allowed(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"[]string{{{listed}}}",
                )
            )
    return problems + [
        errors.invalid_value(f"metadata.{name}", metadata.get(name), "field is immutable")
        for name in _GONE_ALREADY
        if metadata.get(name) != old.get(name)
    ]
