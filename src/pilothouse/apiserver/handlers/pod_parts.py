"""pods/ephemeralcontainers and pods/resize: the two ways to change what a pod runs without making it anew.

After kubernetes' ``pkg/registry/core/pod/strategy.go`` (``podEphemeralContainersStrategy``, ``podResizeStrategy``) and
``ValidatePodEphemeralContainersUpdate``, ``ValidatePodResize`` in ``pkg/apis/core/validation`` (v1.36). Whatever else a
body changes is dropped without a word.
"""

from collections.abc import Callable, Iterable

from pilothouse.apiserver import errors
from pilothouse.apiserver.core import Call, Core
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.handlers.incoming import read_object
from pilothouse.apiserver.handlers.patching import patch_function, read_patch_options
from pilothouse.apiserver.handlers.updating import Wanted, change
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.places import check_identity
from pilothouse.apiserver.results import ObjectResult
from pilothouse.apiserver.strategies.pod_templates import qos_class, validate_pod_spec

_MIRROR = "kubernetes.io/config.mirror"
_RESIZABLE = ("cpu", "memory")

Judge = Callable[[Object, Object], list[FieldError]]
"""Carries what may change over to the stored pod (in place), and says what is wrong with it: (pod as sent, old)."""


async def update_ephemeral_containers(core: Core, call: Call) -> ObjectResult:
    """PUT of pods/NAME/ephemeralcontainers."""
    return await _put(core, call, _ephemeral_problems)


async def patch_ephemeral_containers(core: Core, call: Call) -> ObjectResult:
    """PATCH of pods/NAME/ephemeralcontainers."""
    return await _patch(core, call, _ephemeral_problems)


async def update_resize(core: Core, call: Call) -> ObjectResult:
    """PUT of pods/NAME/resize."""
    return await _put(core, call, _resize_problems)


async def patch_resize(core: Core, call: Call) -> ObjectResult:
    """PATCH of pods/NAME/resize."""
    return await _patch(core, call, _resize_problems)


async def _put(core: Core, call: Call, judge: Judge) -> ObjectResult:
    options = read_write_options(call.asked.query, "UpdateOptions")
    sent = read_object(call, options)
    meta: Object = sent.setdefault("metadata", {})
    check_identity(call, meta)
    revision = meta.get("resourceVersion") or ""
    return await _write(core, call, lambda _old: read_object(call, options), options, judge, revision)


async def _patch(core: Core, call: Call, judge: Judge) -> ObjectResult:
    options = read_patch_options(call)
    return await _write(core, call, patch_function(call, call.info, options), options, judge, None)


async def _write(
    core: Core, call: Call, wanted: Wanted, options: WriteOptions, judge: Judge, revision: str | None
) -> ObjectResult:
    def prepare(obj: Object, old: Object) -> None:
        problems = judge(obj, old)
        if problems:
            raise errors.invalid("", "Pod", call.name, problems)
        if obj["spec"] != old["spec"]:
            obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    return await change(core, call, wanted, options, revision=revision, prepare=prepare)


def _only(obj: Object, old: Object, spec: Object) -> None:
    """Make ``obj`` the stored pod with another spec."""
    meta = {**old["metadata"], "resourceVersion": obj["metadata"]["resourceVersion"]}
    if "managedFields" in obj["metadata"]:
        meta["managedFields"] = obj["metadata"]["managedFields"]
    obj["metadata"] = meta
    obj["spec"] = spec
    obj["status"] = old["status"]


def _is_static(pod: Object) -> bool:
    return _MIRROR in (pod["metadata"].get("annotations") or {})


# Ephemeral containers


def _ephemeral_problems(obj: Object, old: Object) -> list[FieldError]:
    wanted: list[Object] = (obj.get("spec") or {}).get("ephemeralContainers") or []
    spec = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
    if wanted:
        spec["ephemeralContainers"] = wanted
    _only(obj, old, spec)
    if _is_static(old):
        return [errors.not_allowed("[]", "static pods do not support ephemeral containers")]
    problems = validate_pod_spec(spec, "spec", meta=old["metadata"]) if spec != old["spec"] else []
    path = "spec.ephemeralContainers"
    by_name = {container.get("name"): container for container in wanted}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if name not in by_name:
            problems.append(
                errors.not_allowed(path, f"existing ephemeral containers {errors.shown(name)} may not be removed\n")
            )
        elif by_name[name] != container:
            problems.append(
                errors.not_allowed(path, f"existing ephemeral containers {errors.shown(name)} may not be changed\n")
            )
    return problems


# Resize


def _resize_problems(obj: Object, old: Object) -> list[FieldError]:
    sent, before = obj.get("spec") or {}, old["spec"]
    spec = dict(before)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = _resized(spec[field], sent.get(field) or ())
    spec.pop("resources", None)
    if sent.get("resources") is not None:
        spec["resources"] = sent["resources"]
    _only(obj, old, spec)
    if _is_static(old):
        return [errors.not_allowed("[]", "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [errors.not_allowed("[]", "windows pods cannot be resized")]
    problems = validate_pod_spec(spec, "spec", meta=old["metadata"]) if spec != before else []
    status = old.get("status") or {}
    if qos_class(spec) != (status.get("qosClass") or qos_class(before)):
        # The value shown is the class that the pod has.
        told = "Pod QOS Class may not change as a result of resizing"
        problems.append(errors.invalid_value("spec", status.get("qosClass") or "", told))
    if not _may_be_resized(status):
        problems.append(errors.not_allowed("spec", "Pod running on node without support for resize"))
    if _has_amounts(spec) or _has_amounts(before):
        problems += _pod_level_problems(spec.get("resources"), before.get("resources"))
    for field in ("initContainers", "containers"):
        pairs = zip(spec.get(field) or (), before.get(field) or (), strict=True)
        for position, (new, was) in enumerate(pairs):
            path = f"spec.{field}[{position}].resources"
            problems += _removal_problems(new.get("resources") or {}, was.get("resources") or {}, path, "resource")
    problems += [
        errors.not_allowed("spec", "only cpu and memory resources are mutable")
        for new, was in zip(spec["containers"], before["containers"], strict=True)
        if _beyond(new) != _kept(was)
    ]
    for position, was in enumerate(before.get("initContainers") or ()):
        problems += _init_problems(spec["initContainers"][position], was, f"spec.initContainers[{position}]")
    return problems


def _may_be_resized(status: Object) -> bool:
    """Whether the node tells of the resources that containers have: one that cannot resize them does not."""
    running = (one for one in status.get("containerStatuses") or () if "running" in (one.get("state") or {}))
    first = next(running, None)
    return first is None or first.get("resources") is not None


def _has_amounts(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _pod_level_problems(new: Object | None, was: Object | None) -> list[FieldError]:
    if was is not None and new is None:
        return [errors.not_allowed("spec.resources", "pod-level resources cannot be removed")]
    problems = _removal_problems(new or {}, was or {}, "spec.resources", "pod-level resource")
    if _others(new or {}) != _others(was or {}):
        problems.append(errors.not_allowed("spec", "only cpu and memory resources are mutable at pod-level"))
    return problems


def _init_problems(new: Object, was: Object, path: str) -> list[FieldError]:
    problems = []
    if _beyond(new) != _kept(was):
        told = "only cpu and memory resources for init or sidecar containers are mutable"
        problems.append(errors.not_allowed(path, told))
    if was.get("restartPolicy") != "Always" and new != was:
        told = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        problems += [
            errors.not_allowed(path, told)
            for policy in new.get("resizePolicy") or ()
            if policy.get("restartPolicy") == "RestartContainer"
        ]
    return problems


def _resized(containers: Iterable[Object], sent: Iterable[Object]) -> list[Object]:
    """The stored containers with resources and resize policies as sent."""
    wanted = {container.get("name"): container for container in sent}
    result = []
    for container in containers:
        own = dict(container)
        new = wanted.get(container.get("name"))
        if new is not None:
            own["resources"] = new.get("resources") or {}
            if new.get("resizePolicy"):
                own["resizePolicy"] = new["resizePolicy"]
            else:
                own.pop("resizePolicy", None)
        result.append(own)
    return result


def _removal_problems(new: Object, was: Object, path: str, noun: str) -> list[FieldError]:
    return [
        errors.not_allowed(f"{path}.{field}", f"{noun} {field} cannot be removed")
        for field in ("requests", "limits")
        if any(name not in (new.get(field) or {}) for name in was.get(field) or ())
    ]


def _others(resources: Object) -> Object:
    """Resources but for those that may be resized."""
    left = {
        field: {name: amount for name, amount in (resources.get(field) or {}).items() if name not in _RESIZABLE}
        for field in ("requests", "limits")
    }
    return {**resources, **left}


def _kept(container: Object) -> Object:
    """The container as it was, to be compared with what is ``_beyond`` its amounts."""
    return {**container, "resources": {"claims": [], **_others(container.get("resources") or {})}}


def _beyond(container: Object) -> Object:
    """The container without what may be resized. Upstream forgets its claims for devices
    (``dropCPUMemoryResourcesFromContainer``): who has some is not resized."""
    return {**container, "resources": {**_others(container.get("resources") or {}), "claims": []}}
