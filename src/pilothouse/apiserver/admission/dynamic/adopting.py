"""Takes over an object that somebody else has changed during admission."""

import copy
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission import Admission
from pilothouse.apiserver.core import Core
from pilothouse.machinery.bodies import DecodeError, decode_body


def adopt(core: Core, write: Admission, changed: Any) -> bool:
    """Make ``write.obj`` the changed object, in place: checked, reduced to what its schema knows, with defaults.

    Whether that has changed anything. What is no such object any more is an internal error, as upstream's decoder says.
    """
    info, obj = write.info, write.obj
    assert obj is not None, "there is an object to change"
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata", {}), dict):
        raise errors.internal("the patched object is no object")
    try:
        if info.custom is not None:
            info.custom.prune(changed)
        else:
            # Strategies come after admission in the imports.
            from pilothouse.apiserver.handlers.incoming import definition_of

            definition = definition_of(info.group, info.version, info.kind)
            changed = decode_body(msgspec.json.encode(changed), definition).document
    except DecodeError as error:
        raise errors.internal(str(error)) from None
    before = copy.deepcopy(obj)
    meta = obj["metadata"]
    new_meta = changed.get("metadata") or {}
    # Nobody changes ownership on the way.
    owners = meta.get("managedFields")
    # The handler goes on with these very dicts.
    meta.clear()
    meta.update(new_meta)
    meta.pop("managedFields", None)
    if owners is not None:
        meta["managedFields"] = owners
    obj.clear()
    obj.update(changed)
    obj["metadata"], obj["kind"], obj["apiVersion"] = meta, info.kind, info.api_version
    core.strategy(info).default(obj)
    return obj != before
