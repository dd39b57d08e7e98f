"""LimitRanger: default requests and limits of containers, and the constraints of LimitRanges on pods and claims.

After kubernetes' ``plugin/pkg/admission/limitranger/admission.go`` (v1.36). Upstream iterates over the resources of a
limit in Go's random map order; here they are sorted by name, so that the same pod is rejected with the same message.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.semantics.pod_amounts import Amounts, amounts, pod_amounts
from pilothouse.storage import Record, Store

ANNOTATION = "kubernetes.io/limit-ranger"
PREFIX = "/limitranges/"
# Quantities above this do not fit 64 bits in thousandths and are compared in whole units (``resource.MaxMilliValue``).
_MAX_MILLI = ((1 << 63) - 1) // 1000
_ZERO = Quantity(0)
MAX_COMPARISONS = 20_000
"""The maximum number of quantities compared or defaulted for one object: some hundred for each of a hundred containers.
Upstream has no limit, but serves other requests concurrently."""


class Limit(msgspec.Struct, frozen=True, rename="camel"):
    """A ``LimitRangeItem``, with quantities as strings."""

    type: str = ""
    min: dict[str, str] = {}
    max: dict[str, str] = {}
    default: dict[str, str] = {}
    default_request: dict[str, str] = {}
    max_limit_request_ratio: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True):
    limits: tuple[Limit, ...] | None = ()


class _LimitRange(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_read = msgspec.json.Decoder(_LimitRange).decode


class LimitRanger(Plugin):
    """Sets defaults in pods on create; validates pods on create and resize, claims on create and update."""

    resources = frozenset({"pods", "persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[str, tuple[int, tuple[Limit, ...]]] = {}

    def admit(self, write: AdmissionAttributes) -> None:
        if write.info.resource != "pods" or not self._store.has_any(PREFIX) or not _supports_attributes(write):
            return
        for limits in self._limits_of_namespace(write):
            assert write.obj is not None, "only writes with an object are supported"
            default_pod_resources(write.obj, limits)

    def validate(self, write: AdmissionAttributes) -> None:
        if not self._store.has_any(PREFIX) or not _supports_attributes(write):
            return
        for limits in self._limits_of_namespace(write):
            assert write.obj is not None, "only writes with an object are supported"
            is_pod = write.info.resource == "pods"
            validate = pod_validate_limit_func if is_pod else persistent_volume_claim_validate_limit_func
            all_errors = list(dict.fromkeys(validate(write.obj, limits)))
            if all_errors:
                raise new_forbidden(write, all_errors[0] if len(all_errors) == 1 else f"[{', '.join(all_errors)}]")

    def _limits_of_namespace(self, write: AdmissionAttributes) -> list[tuple[Limit, ...]]:
        """The limits of the namespace. Rejects an object that needs more than ``MAX_COMPARISONS``."""
        namespace_limits = list(self._ranges(write.namespace))
        bounds = sum(_size(limit) for limits in namespace_limits for limit in limits)
        spec = (write.obj or {}).get("spec") or {}
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        requested = sum(
            len(quantities or ())
            for container in containers
            for quantities in (container.get("resources") or {}).values()
        )
        comparisons = bounds * max(1, len(containers)) + requested * sum(map(len, namespace_limits))
        if comparisons > MAX_COMPARISONS:
            raise new_forbidden(
                write,
                f"the LimitRanges of the namespace require {comparisons} comparisons of quantities, at most "
                f"{MAX_COMPARISONS} are allowed",
            )
        return namespace_limits

    def _ranges(self, namespace: str) -> Iterator[tuple[Limit, ...]]:
        for record in self._store.list(f"{PREFIX}{namespace}/").records:
            yield self._limits(record)

    def _limits(self, record: Record) -> tuple[Limit, ...]:
        cached = self._cache.get(record.key)
        if cached is None or cached[0] != record.revision:
            cached = self._cache[record.key] = (record.revision, _read(record.value).spec.limits or ())
        return cached[1]


def _size(limit: Limit) -> int:
    maps = (limit.min, limit.max, limit.default, limit.default_request, limit.max_limit_request_ratio)
    return sum(map(len, maps))


def _supports_attributes(write: AdmissionAttributes) -> bool:
    info, obj = write.info, write.obj
    if info.group or obj is None or info.resource not in ("pods", "persistentvolumeclaims"):
        return False
    if write.subresource:
        if write.subresource != "resize" or info.resource != "pods" or write.operation != "UPDATE":
            return False
    elif info.resource == "pods" and write.operation == "UPDATE":
        return False  # resources of containers can only change by a resize
    return write.old is None or not write.old["metadata"].get("deletionTimestamp")


def default_pod_resources(pod: Object, limits: tuple[Limit, ...]) -> None:
    """Set default requests and limits of containers, and list them in the annotation ``kubernetes.io/limit-ranger``."""
    requests: dict[str, str] = {}
    default_limits: dict[str, str] = {}
    for limit in limits:
        if limit.type == "Container":
            requests.update(limit.default_request)
            default_limits.update(limit.default)
    if not requests and not default_limits:
        return
    texts: list[str] = []
    spec: Object = pod.get("spec") or {}
    for kind, field in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(field) or ():
            resources: Object = container.setdefault("resources", {})
            for singular, name, defaults in (("request", "requests", requests), ("limit", "limits", default_limits)):
                present = resources.get(name) or {}
                missing = sorted(key for key in defaults if key not in present)
                if missing:
                    resources[name] = {**present, **{key: defaults[key] for key in missing}}
                    texts.append(f"{', '.join(missing)} {singular} for {kind} {container.get('name', '')}")
    if texts:
        meta = pod["metadata"]
        annotation = f"LimitRanger plugin set: {'; '.join(texts)}"
        meta["annotations"] = {**(meta.get("annotations") or {}), ANNOTATION: annotation}


def pod_validate_limit_func(pod: Object, limits: tuple[Limit, ...]) -> Iterator[str]:
    """The violations of the limits by a pod (``PodValidateLimitFunc``)."""
    spec: Object = pod.get("spec") or {}
    for limit in limits:
        if limit.type == "Container":
            for field in ("containers", "initContainers"):
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    yield from _validate(limit, amounts(resources.get("requests")), amounts(resources.get("limits")))
        elif limit.type == "Pod":
            yield from _validate(limit, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def persistent_volume_claim_validate_limit_func(claim: Object, limits: tuple[Limit, ...]) -> Iterator[str]:
    """The violations of the limits by a claim (``PersistentVolumeClaimValidateLimitFunc``). Its requests are compared
    with minimum and maximum."""
    requested = amounts((((claim.get("spec") or {}).get("resources")) or {}).get("requests"))
    for limit in limits:
        if limit.type == "PersistentVolumeClaim":
            yield from _validate_min(limit, requested, {})
            for name, bound in _sorted(limit.max):
                usage = f"maximum {name} usage per {limit.type} is {bound}"
                if name not in requested:
                    yield f"{usage}.  No request is specified"
                elif _less(bound, requested[name]):
                    yield f"{usage}, but request is {requested[name]}"


def _validate(limit: Limit, requested: Amounts, limits_set: Amounts) -> Iterator[str]:
    yield from _validate_min(limit, requested, limits_set)
    for name, bound in _sorted(limit.max):
        usage = f"maximum {name} usage per {limit.type} is {bound}"
        if name not in limits_set:
            yield f"{usage}.  No limit is specified"
        elif _less(bound, limits_set[name]):
            yield f"{usage}, but limit is {limits_set[name]}"
        elif name in requested and _less(bound, requested[name]):
            yield f"{usage}, but request is {requested[name]}"
    for name, bound in _sorted(limit.max_limit_request_ratio):
        ratio = f"{name} max limit to request ratio per {limit.type} is {bound}"
        if not requested.get(name, _ZERO):
            yield f"{ratio}, but no request is specified or request is 0"
        elif not limits_set.get(name, _ZERO):
            yield f"{ratio}, but no limit is specified or limit is 0"
        else:
            low, high = _comparable(requested[name], limits_set[name])
            provided = high / low
            if provided * 1000 > bound.milli_value:
                yield f"{ratio}, but provided ratio is {provided:.6f}"


def _validate_min(limit: Limit, requested: Amounts, limits_set: Amounts) -> Iterator[str]:
    for name, bound in _sorted(limit.min):
        usage = f"minimum {name} usage per {limit.type} is {bound}"
        if name not in requested:
            yield f"{usage}.  No request is specified"
        elif _less(requested[name], bound):
            yield f"{usage}, but request is {requested[name]}"
        elif name in limits_set and _less(limits_set[name], bound):
            yield f"{usage}, but limit is {limits_set[name]}"


def _sorted(quantities: Mapping[str, Any]) -> list[tuple[str, Quantity]]:
    return [(name, parse_quantity(str(quantities[name]))) for name in sorted(quantities)]


def _less(first: Quantity, second: Quantity) -> bool:
    """Compares in thousandths if both fit, else in whole units."""
    low, high = _comparable(first, second)
    return low < high


def _comparable(first: Quantity, second: Quantity) -> tuple[int, int]:
    if first.value <= _MAX_MILLI and second.value <= _MAX_MILLI:
        return first.milli_value, second.milli_value
    return first.value, second.value
