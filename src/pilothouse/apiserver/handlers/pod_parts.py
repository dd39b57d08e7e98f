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
    sent = obj.get("spec") or {}
    spec = dict(old["spec"])
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = _resized(spec[field], sent.get(field) or ())
    if sent.get("resources"):
        spec["resources"] = sent["resources"]
    _only(obj, old, spec)
    if _is_static(old):
        return [errors.not_allowed("[]", "static pods cannot be resized")]
    if spec == old["spec"]:
        return []
    problems = validate_pod_spec(spec, "spec")
    known = (old.get("status") or {}).get("qosClass") or qos_class(old["spec"])
    if qos_class(spec) != known:
        # The value shown is the class that the pod has.
        problems.append(errors.invalid_value("spec", known, "Pod QOS Class may not change as a result of resizing"))
    for field in ("containers", "initContainers"):
        pairs = zip(spec.get(field) or (), old["spec"].get(field) or (), strict=True)
        for position, (new, was) in enumerate(pairs):
            problems += _change_problems(new, was, f"spec.{field}[{position}].resources")
            if field == "initContainers" and was.get("restartPolicy") != "Always" and new != was:
                problems.append(
                    errors.not_allowed("spec", "only cpu and memory resources for sidecar containers are mutable")
                )
            elif _beyond(new) != _beyond(was):
                problems.append(errors.not_allowed("spec", "only cpu and memory resources are mutable"))
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


def _change_problems(new: Object, was: Object, path: str) -> list[FieldError]:
    after, before = new.get("resources") or {}, was.get("resources") or {}
    return [
        errors.not_allowed(f"{path}.{field}", f"resource {field} cannot be removed")
        for field in ("limits", "requests")
        if any(name not in (after.get(field) or {}) for name in before.get(field) or ())
    ]


def _beyond(container: Object) -> Object:
    """The container without what may be resized."""
    resources = {
        field: {name: amount for name, amount in amounts.items() if name not in _RESIZABLE}
        for field, amounts in (container.get("resources") or {}).items()
        if isinstance(amounts, dict)
    }
    return {**container, "resources": {field: amounts for field, amounts in resources.items() if amounts}}
