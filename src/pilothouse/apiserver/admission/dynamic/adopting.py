"""Takes over an object that a webhook or policy has changed during admission."""

import copy
from typing import Any

import msgspec

from pilothouse.api.schema import definition_of
from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.core import Core
from pilothouse.machinery.bodies import DecodeError, decode_body


def adopt(core: Core, write: AdmissionAttributes, changed: Any) -> bool:
    """Make ``write.obj`` the changed object, in place: checked, reduced to what its schema knows, with defaults.

    Whether that has changed anything. What is no such object any more is an internal error, as upstream's decoder says.
    """
    info, obj = write.info, write.obj
    assert obj is not None, "there is an object to change"
    # Not the resource's own where a subresource has one: an Eviction is posted to a pod.
    kind, api_version = obj["kind"], obj["apiVersion"]
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata", {}), dict):
        raise errors.internal("the patched object is not an object")
    try:
        if info.custom is not None:
            info.custom.prune(changed)
        else:
            group, _slash, version = api_version.rpartition("/")
            definition = definition_of(group, version, kind)
            changed = decode_body(msgspec.json.encode(changed), definition).document
    except DecodeError as error:
        raise errors.internal(str(error)) from None
    before = copy.deepcopy(obj)
    meta = obj["metadata"]
    new_meta = changed.get("metadata") or {}
    # Managed fields don't change on the way.
    owners = meta.get("managedFields")
    # The handler goes on with these very dicts.
    meta.clear()
    meta.update(new_meta)
    meta.pop("managedFields", None)
    if owners is not None:
        meta["managedFields"] = owners
    obj.clear()
    obj.update(changed)
    obj["metadata"], obj["kind"], obj["apiVersion"] = meta, kind, api_version
    if kind == info.kind:
        core.strategy(info).set_defaults(obj)
    return obj != before
