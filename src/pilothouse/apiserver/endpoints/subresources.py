"""scale, binding and finalize: subresources with their own kinds or rules."""

from typing import Any

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints import update
from pilothouse.apiserver.endpoints.apply import check_config, read_config
from pilothouse.apiserver.endpoints.create import subresource_attributes
from pilothouse.apiserver.endpoints.object_names import check_name, namespace_mismatch
from pilothouse.apiserver.endpoints.patch import APPLY_PATCH, patch_function, read_patch_options, stored_owners
from pilothouse.apiserver.endpoints.request_objects import read_built_in, read_object
from pilothouse.apiserver.endpoints.update import (
    Change,
    SubresourceStrategy,
    SubresourceView,
    apply_change,
    read_stored,
)
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE
from pilothouse.apiserver.registry.generic.object_meta import validate_finalizer_name
from pilothouse.apiserver.serializers.results import ObjectResult, StatusResult
from pilothouse.machinery import merge_types
from pilothouse.machinery.labels import SelectorError, selector_from, selector_from_map
from pilothouse.storage import Record


def _existing(core: Core, call: Call) -> Record:
    record = core.store.get(call.key)
    if record is None:
        raise errors.not_found(call.info, call.name)
    return record


async def get_status(core: Core, call: Call) -> ObjectResult:
    """GET of /status: returns the whole object."""
    return ObjectResult(
        200, call.info, await core.from_storage(call.info, _existing(core, call).value, bypass_cache=True)
    )


# scale


def _nested_field(obj: Object, path: str) -> Any:
    """The value at a simple path (``.spec.replicas``), or None."""
    node: Any = obj
    for segment in path.lstrip(".").split("."):
        if not isinstance(node, dict):
            return None
        node = node.get(segment)
    return node


_NOT_SET = -(1 << 31)
"""The default of missing replicas of a custom resource in the Scale to be updated."""


def scale_of(call: Call, obj: Object, *, not_set: int | None = None) -> Object:
    """The Scale of an object. Missing replicas are replaced by ``not_set``, or an error."""
    info, meta = call.info, obj["metadata"]
    scale_metadata = {
        name: meta[name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in meta
    }
    status: Object
    if info.custom is not None:
        paths = info.custom.scale
        replicas = _nested_field(obj, paths.spec_replicas)
        if replicas is None:
            replicas = not_set
        if replicas is None:
            raise errors.internal(f'the spec replicas field "{paths.spec_replicas}" does not exist')
        status = {"replicas": _nested_field(obj, paths.status_replicas) or 0}
        selector = _nested_field(obj, paths.label_selector) if paths.label_selector else ""
    else:
        spec = obj.get("spec") or {}
        replicas = spec.get("replicas") or 0
        status = {"replicas": (obj.get("status") or {}).get("replicas") or 0}
        selector = _selector_text(spec.get("selector"), is_map=call.strategy.selects_by_map)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": scale_metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any, *, is_map: bool) -> str:
    if not selector:
        return ""
    try:
        if is_map:
            return str(selector_from_map(selector))
        return str(selector_from(msgspec.convert(selector, LabelSelector)))
    except (SelectorError, msgspec.ValidationError) as error:
        raise errors.internal(str(error)) from None


def _scale_result(call: Call, obj: Object) -> ObjectResult:
    return ObjectResult(200, call.info, msgspec.json.encode(scale_of(call, obj)), tuple(call.warnings))


async def get_scale(core: Core, call: Call) -> ObjectResult:
    """GET of /scale."""
    return _scale_result(call, await read_stored(core, call, _existing(core, call)))


async def update_scale(core: Core, call: Call) -> ObjectResult:
    """PUT of /scale."""
    options = read_write_options(call.request_info.query, "UpdateOptions")
    reading = (call, options, call.info, "autoscaling", "v1", "Scale")
    scale = await core.long_work.run(call.size, read_built_in, *reading)
    check_name(call, scale.setdefault("metadata", {}))
    _check_replicas_present(call, scale)
    return await _update_replicas(core, call, lambda _current: scale, options)


async def patch_scale(core: Core, call: Call) -> ObjectResult:
    """PATCH of /scale."""
    options = read_patch_options(call)
    if call.content_type == APPLY_PATCH:
        return await _apply_scale(core, call, options)
    owners = lambda: core.managed_fields.scale_managed_fields(call.info, stored_owners(core, call))  # noqa: E731
    apply = await core.long_work.run(call.size, patch_function, call, call.info, options, kind="Scale", owners=owners)

    def desired(current: Object) -> Object:
        scale = apply(current)
        _check_replicas_present(call, scale)
        return scale

    return await _update_replicas(core, call, desired, options)


async def _apply_scale(core: Core, call: Call, options: WriteOptions) -> ObjectResult:
    config, _repeated = await core.long_work.run(call.size, read_config, call)
    type_ = merge_types.of_kind("autoscaling", "v1", "Scale")
    assert type_ is not None, "Scale is built in"
    check_config(config, "autoscaling/v1", "Scale", type_)
    return await _update_replicas(core, call, lambda _current: config, options, applied=True)


def _replicas(scale: Object) -> int:
    return (scale.get("spec") or {}).get("replicas") or 0


def _check_replicas(call: Call, scale: Object) -> None:
    replicas = _replicas(scale)
    # Custom resources are validated by their schema.
    if replicas < 0 and call.info.custom is None:
        replicas_error = field_errors.invalid("spec.replicas", replicas, NON_NEGATIVE)
        raise errors.invalid("autoscaling", "Scale", call.name, [replicas_error])


def _check_replicas_present(call: Call, scale: Object) -> None:
    if call.info.custom is not None and _replicas(scale) == _NOT_SET:
        raise errors.bad_request(f'the spec replicas field "{call.info.custom.scale.spec_replicas}" cannot be empty')


async def _update_replicas(
    core: Core, call: Call, desired: Any, options: WriteOptions, *, applied: bool = False
) -> ObjectResult:
    """Update replicas and resource version of the scaled object; ``desired`` is an apply configuration of the Scale
    when ``applied``."""

    def apply(obj: Object, live_owners: bytes) -> tuple[Object, bytes]:
        live = scale_of(call, obj, not_set=_NOT_SET)
        live_revision = live["metadata"]["resourceVersion"]
        new_scale = desired(scale_of(call, obj, not_set=_NOT_SET))
        scale, owners = core.managed_fields.update_scale(call, live, new_scale, live_owners, options, is_apply=applied)
        if applied:
            _check_replicas_present(call, scale)
        meta = scale.get("metadata") or {}
        version = meta.get("resourceVersion")
        obj["metadata"]["resourceVersion"] = version if version not in (None, "", "0", live_revision) else live_revision
        if meta.get("uid"):
            obj["metadata"]["uid"] = meta["uid"]
        _set_replicas(call, obj, _replicas(scale))
        return obj, owners

    def read(obj: Object) -> Object:
        return scale_of(call, obj, not_set=_NOT_SET)

    def write(scale: Object, obj: Object) -> None:
        _check_replicas(call, scale)
        _set_replicas(call, obj, _replicas(scale))

    result = await apply_change(core, call, Change(apply=apply, main=True, view=SubresourceView(read, write)), options)
    return _scale_result(call, msgspec.json.decode(result.value))


def _set_replicas(call: Call, obj: Object, replicas: int) -> None:
    path = call.info.custom.scale.spec_replicas if call.info.custom is not None else ".spec.replicas"
    *parents, last_segment = path.lstrip(".").split(".")
    node = obj
    for segment in parents:
        node = node.setdefault(segment, {})
    node[last_segment] = replicas


# pods/binding


async def bind(core: Core, call: Call) -> StatusResult:
    """POST of pods/NAME/binding, or of a Binding to the collection ``bindings``: assigns a pod to a node."""
    options = read_write_options(call.request_info.query, "CreateOptions")
    pods = core.table.built_in("", "pods")
    binding = await core.long_work.run(call.size, read_built_in, call, options, call.info, "", "v1", "Binding")
    meta: Object = binding.setdefault("metadata", {})
    if meta.get("namespace") not in (None, "", call.namespace):
        raise namespace_mismatch()
    meta["namespace"] = call.namespace
    binding["kind"], binding["apiVersion"] = "Binding", "v1"
    name = call.name or meta.get("name") or ""
    write = subresource_attributes(call, binding, name)
    await core.admission.admit(write)
    if meta.get("name") != name or not name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        raise errors.plain(
            str(field_errors.not_supported("target.kind", target["kind"], ("Node", "<empty>"), plain=True))
        )
    if not target.get("name"):
        raise errors.plain(str(field_errors.required("target.name")))
    await core.admission.validate(write)
    pod_call = Call(
        call.request,
        call.request_info,
        pods,
        core.strategy(pods),
        call.identity,
        call.namespace,
        name,
        call.warnings,
        skip_admission=True,
    )
    change = Change(
        transform=lambda pod: _assign_pod(core, pod_call, pod, binding),
        revision="",
        subresource_strategy=_BINDING,
        tracked=False,
        copies_only_metadata=True,
    )
    await apply_change(core, pod_call, change, options)
    return StatusResult(201, msgspec.json.encode(errors.success(code=201)), tuple(pod_call.warnings))


def _keep_all(_obj: Object, _old: Object) -> None:
    """A binding writes spec and status at once, and does not increase the generation."""


_BINDING = SubresourceStrategy(_keep_all)
"""Upstream bypasses the strategy of pods (``setPodNodeAndMetadata``)."""


def _assign_pod(core: Core, call: Call, pod: Object, binding: Object) -> Object:
    meta, binding_metadata = pod["metadata"], binding.get("metadata") or {}
    if binding_metadata.get("uid") and binding_metadata["uid"] != meta["uid"]:
        raise update.wrong_uid(call.info, call.namespace, call.name, binding_metadata["uid"], meta["uid"])
    if binding_metadata.get("resourceVersion") not in (None, "", "0", meta["resourceVersion"]):
        raise errors.modified(call.info, call.name)
    if meta.get("deletionTimestamp"):
        raise _binding_conflict(call, f"pod {call.name} is being deleted, cannot be assigned to a host")
    spec = pod["spec"]
    if spec.get("nodeName"):
        raise _binding_conflict(call, f'pod {call.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _binding_conflict(call, f"pod {call.name} has non-empty .spec.schedulingGates")
    pod["spec"] = {**spec, "nodeName": binding["target"]["name"]}
    for field in ("annotations", "labels"):
        if binding_metadata.get(field):
            meta[field] = {**(meta.get(field) or {}), **binding_metadata[field]}
    status: Object = dict(pod.get("status") or {})
    status.pop("nominatedNodeName", None)
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": core.time.now(),
    }
    other_conditions = [
        condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"
    ]
    status["conditions"] = [*other_conditions, scheduled]
    pod["status"] = status
    return pod


def _binding_conflict(call: Call, reason: str) -> errors.StatusError:
    return errors.conflict(call.info, call.name, reason, subresource="binding")


# Subresources with their own strategy


async def update_subresource(core: Core, call: Call, subresource_strategy: SubresourceStrategy) -> ObjectResult:
    """PUT of such a subresource."""
    options = read_write_options(call.request_info.query, "UpdateOptions")
    new = await core.long_work.run(call.size, read_object, call, options)
    meta: Object = new.setdefault("metadata", {})
    check_name(call, meta)
    revision = meta.get("resourceVersion") or ""
    change = Change(
        transform=lambda _old: read_object(call, options), revision=revision, subresource_strategy=subresource_strategy
    )
    return await apply_change(core, call, change, options)


async def patch_subresource(core: Core, call: Call, subresource_strategy: SubresourceStrategy) -> ObjectResult:
    """PATCH of such a subresource."""
    options = read_patch_options(call)
    patched = await core.long_work.run(call.size, patch_function, call, call.info, options)
    return await apply_change(core, call, Change(transform=patched, subresource_strategy=subresource_strategy), options)


# namespaces/finalize: only here spec.finalizers can be changed


def _only_finalizers(obj: Object, old: Object) -> None:
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    obj["spec"] = {"finalizers": finalizers} if finalizers else {}
    if "status" in old:
        obj["status"] = old["status"]
    else:
        obj.pop("status", None)


def _validate_finalize(obj: Object, _old: Object) -> ErrorList:
    return validate_finalizer_name(obj["spec"].get("finalizers") or (), "spec.finalizers")


FINALIZE = SubresourceStrategy(_only_finalizers, _validate_finalize)
