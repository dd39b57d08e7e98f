"""The AdmissionRequest of a write, for expressions (variable ``request``) and webhooks.

After k8s.io/apiserver ``pkg/admission/plugin/webhook/request/admissionreview.go`` (v0.36).
"""

import copy
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.registry.generic.managed_fields import with_decoded_managed_fields
from pilothouse.apiserver.resources import ResourceInfo

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class NotConverted(errors.StatusError):
    """The conversion webhook of a custom resource has failed. An internal error, unless the caller ignores failures."""

    def __init__(self, conversion_error: str) -> None:
        internal = errors.internal(conversion_error)
        super().__init__(internal.code, internal.reason, internal.message, details=internal.details)
        self.conversion_error = conversion_error


async def converted(core: Core, write: AdmissionAttributes, obj: Object | None, info: ResourceInfo) -> Object | None:
    """An object of the write in a served version, fully decoded (managedFields too). Raises ``NotConverted``."""
    if obj is None:
        return None
    if obj["kind"] != write.info.kind:
        return with_decoded_managed_fields(obj)  # the kinds of subresources have one version
    if info is write.info:
        return with_zero_structs(core, info, with_decoded_managed_fields(obj))
    return with_zero_structs(core, info, await convert(core, write.info, info, obj))


def with_zero_structs(core: Core, info: ResourceInfo, obj: Object) -> Object:
    """The object with the structs that Go encodes although they are unset (``status: {}``)."""
    absent = {name: value for name, value in core.managed_fields.tracker(info).zero.items() if name not in obj}
    return {**obj, **copy.deepcopy(absent)} if absent else obj


def without_zero_structs(core: Core, info: ResourceInfo, obj: Object, original: Object) -> Object:
    """The object without the structs that ``with_zero_structs`` has added to ``original``, if they are still unset."""
    zero = core.managed_fields.tracker(info).zero
    return {name: value for name, value in obj.items() if name in original or name not in zero or value != zero[name]}


async def convert(core: Core, source: ResourceInfo, target: ResourceInfo, obj: Object) -> Object:
    """Convert an object from one version to another. Raises ``NotConverted``."""
    if source.custom is not None and source.custom.converter is not None:
        try:
            result: Object = await source.custom.converter.convert(obj, target, pruned=False)
        except errors.StatusError as error:
            raise NotConverted(error.message) from None
        return result
    strategy = core.strategy(source)
    stored = encode_object(strategy.stored_as(source), strategy.to_storage(source, obj))
    return decode(core.from_storage_nowait(target, stored))


def admission_request(write: AdmissionAttributes, info: ResourceInfo, uid: str) -> Object:
    """The request without its objects. ``info`` is the version that matched."""
    requested = write.info
    request: dict[str, Any] = {
        "uid": uid,
        "kind": _kind(info, write.subresource),
        "resource": {"group": info.group, "version": info.version, "resource": info.resource},
        "requestKind": _kind(requested, write.subresource),
        "requestResource": {"group": requested.group, "version": requested.version, "resource": requested.resource},
        "operation": write.operation,
        "userInfo": _user(write),
        "dryRun": write.dry_run,
    }
    if write.subresource:
        request["subResource"] = request["requestSubResource"] = write.subresource
    if write.name:
        request["name"] = write.name
    if write.namespace:
        request["namespace"] = write.namespace
    elif requested.resource == "namespaces" and not requested.group and write.name:
        request["namespace"] = write.name
    request["options"] = _options(write)
    return request


def _options(write: AdmissionAttributes) -> Object | None:
    """The options of the operation; those of a patch as UpdateOptions, or CreateOptions if it creates the object."""
    kind = _OPTIONS.get(write.operation)
    if kind is None:
        return None
    values: dict[str, Any]
    delete_options = write.delete_options
    if delete_options is not None:
        preconditions = delete_options.preconditions
        values = {
            "gracePeriodSeconds": delete_options.grace_period_seconds,
            "preconditions": None if preconditions is None else _without_none(msgspec.to_builtins(preconditions)),
            "orphanDependents": delete_options.orphan_dependents,
            "propagationPolicy": delete_options.propagation_policy,
            "dryRun": delete_options.dry_run or None,
        }
    else:
        values = {
            "dryRun": write.query.get("dryRun") or (["All"] if write.dry_run else None),
            "fieldManager": write.query.first("fieldManager") or None,
            "fieldValidation": write.query.first("fieldValidation") or None,
        }
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **_without_none(values)}


def _without_none(values: Object) -> Object:
    return {name: value for name, value in values.items() if value is not None}


def _kind(info: ResourceInfo, subresource: str) -> dict[str, str]:
    sub = info.subresources.get(subresource) if subresource else None
    if sub is None:
        return {"group": info.group, "version": info.version, "kind": info.kind}
    return {"group": sub.group or info.group, "version": sub.version or info.version, "kind": sub.kind}


def _user(write: AdmissionAttributes) -> Object:
    identity = write.identity
    user: dict[str, Any] = {"username": identity.user, "groups": list(identity.groups)}
    if identity.uid:
        user["uid"] = identity.uid
    if identity.extra:
        user["extra"] = {key: list(values) for key, values in identity.extra.items()}
    return user
