"""Replaces the object of a write with the one that a mutating webhook or policy returned."""

import copy
from typing import Any

import msgspec

from pilothouse.api.schema import definition_of
from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.core import Core
from pilothouse.machinery.bodies import DecodeError, decode_body


def replace_object(core: Core, write: AdmissionAttributes, mutated: Any) -> bool:
    """Replace the content of ``write.obj`` in place by ``mutated``: decoded, pruned and defaulted. ``managedFields``
    are kept.

    Returns whether the object has changed. An object that cannot be decoded is an internal error with the decoder's
    message, as upstream.
    """
    info, obj = write.info, write.obj
    assert obj is not None, "only writes with an object are mutated"
    # A subresource can have another kind than its resource (pods/eviction).
    kind, api_version = obj["kind"], obj["apiVersion"]
    if not isinstance(mutated, dict) or not isinstance(mutated.get("metadata", {}), dict):
        raise errors.internal("the patched object is not an object")
    try:
        if info.custom is not None:
            info.custom.prune(mutated)
        else:
            group, _slash, version = api_version.rpartition("/")
            definition = definition_of(group, version, kind)
            mutated = decode_body(msgspec.json.encode(mutated), definition).document
    except DecodeError as error:
        raise errors.internal(str(error)) from None
    original = copy.deepcopy(obj)
    meta = obj["metadata"]
    new_meta = mutated.get("metadata") or {}
    # Admission does not change managed fields: the handler updates them afterwards.
    owners = meta.get("managedFields")
    # The handler holds references to these dicts.
    meta.clear()
    meta.update(new_meta)
    meta.pop("managedFields", None)
    if owners is not None:
        meta["managedFields"] = owners
    obj.clear()
    obj.update(mutated)
    obj["metadata"], obj["kind"], obj["apiVersion"] = meta, kind, api_version
    if kind == info.kind:
        core.strategy(info).set_defaults(obj)
    return obj != original
