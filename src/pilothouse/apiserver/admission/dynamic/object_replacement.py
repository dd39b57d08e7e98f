"""Replaces the object of a write with the one that a mutating webhook or policy returned."""

import copy
from typing import Any

import msgspec

from pilothouse.api.schema import load
from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.admission.dynamic.requests import without_zero_structs
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.serializers.omitempty import drop_empty
from pilothouse.cel.work import measure
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.go_text import compact_json, quote

_SCHEME = '"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'

_BYTES_OF_VALUE = 16
"""The bytes of JSON for each value, and the characters that ``measure`` counts as one."""


def estimated_size(*values: Any) -> int:
    """About how many bytes of JSON values have, for ``long_work``: an object was changed since it was received."""
    return _BYTES_OF_VALUE * measure([*values]).weight


def replace_object(core: Core, write: AdmissionAttributes, mutated: Any, *, strict: bool = False) -> bool:
    """Replace the content of ``write.obj`` in place by ``mutated``: decoded, pruned and defaulted. ``managedFields``
    are kept. ``strict``: unknown fields of built-in kinds are errors, as after JSON patches of policies.

    Returns whether the object has changed. An object that cannot be decoded is an internal error with the decoder's
    message, as upstream.
    """
    info, obj = write.info, write.obj
    assert obj is not None, "only writes with an object are mutated"
    # A subresource can have another kind than its resource (pods/eviction).
    kind, api_version = obj["kind"], obj["apiVersion"]
    document = _decoded(mutated, kind, api_version, info.custom if kind == info.kind else None, strict=strict)
    if kind == info.kind:
        document = without_zero_structs(core, info, document, obj)
    original = copy.deepcopy(obj)
    if "metadata" not in obj:  # the options of a CONNECT
        obj.clear()
        obj.update(document)
        return obj != original
    meta = obj["metadata"]
    new_meta = document.get("metadata") or {}
    # Admission does not change managed fields: the handler updates them afterwards.
    owners = meta.get("managedFields")
    # The handler holds references to these dicts.
    meta.clear()
    meta.update(new_meta)
    meta.pop("managedFields", None)
    if owners is not None:
        meta["managedFields"] = owners
    obj.clear()
    obj.update(document)
    obj["metadata"], obj["kind"], obj["apiVersion"] = meta, kind, api_version
    if kind == info.kind:
        core.strategy(info).set_defaults(obj)
    return obj != original


def _decoded(mutated: Any, kind: str, api_version: str, custom: Any, *, strict: bool) -> Object:
    if custom is not None:
        if not isinstance(mutated, dict) or not isinstance(mutated.get("metadata", {}), dict):
            raise errors.internal("the patched object is not an object")
        if strict and not mutated.get("kind"):
            text = compact_json(msgspec.json.decode(msgspec.json.encode(mutated)), in_order=True)
            raise errors.internal(f"Object 'Kind' is missing in '{text}'")
        if (mutated.get("kind") or kind, mutated.get("apiVersion") or api_version) != (kind, api_version):
            raise errors.changed_kind(mutated, kind, api_version)
        try:
            custom.prune(mutated)
        except DecodeError as error:
            raise errors.internal(str(error)) from None
        return mutated
    group, _slash, version = api_version.rpartition("/")
    if isinstance(mutated, dict):
        sent_kind, sent_version = mutated.get("kind") or kind, mutated.get("apiVersion") or api_version
        if (sent_kind, sent_version) != (kind, api_version):
            raise errors.internal(
                f"no kind {quote(str(sent_kind))} is registered for version {quote(str(sent_version))} in scheme "
                f"{_SCHEME}"
            )
    definition = load().for_kind(group, version, kind)
    if definition is None:  # options of a CONNECT have no schema
        if not isinstance(mutated, dict):
            raise errors.internal("the patched object is not an object")
        return mutated
    try:
        # The patch library has sorted the members of everything that it has touched.
        encoded = msgspec.json.encode(mutated, order="deterministic" if strict else None)
        decoded = decode_body(encoded, definition)
    except DecodeError as error:
        raise errors.internal(str(error)) from None
    if strict and decoded.strict_errors:
        raise errors.internal(f"strict decoding error: {', '.join(decoded.strict_errors)}")
    drop_empty(decoded.document, definition)
    return decoded.document
