"""LimitRanger: what a container gets when it does not say, and how much it may ask for.

After kubernetes' ``plugin/pkg/admission/limitranger/admission.go`` (v1.36). Upstream goes through the resources of a
limit in Go's random order of maps; here they go by name, so that the same pod is rejected with the same message.
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
# Beyond this a thousandth part would not fit 64 bits, and whole units are compared instead (resource.MaxMilliValue).
_MAX_MILLI = ((1 << 63) - 1) // 1000
_ZERO = Quantity(0)
MOST_AMOUNTS = 20_000
"""How many amounts are compared, or filled in, for one object: some hundred for each of a hundred containers. Upstream
has no bound, but a process for others that wait."""


class Limit(msgspec.Struct, frozen=True, rename="camel"):
    """One item of a LimitRange, amounts as text."""

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
    """Completes pods on create; validates pods and claims on create, claims also on update, pods also on resize."""

    resources = frozenset({"pods", "persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[int, tuple[Limit, ...]]] = {}

    def admit(self, write: AdmissionAttributes) -> None:
        if write.info.resource != "pods" or not self._store.has_any(PREFIX) or not _concerned(write):
            return
        for limits in self._bounded(write):
            assert write.obj is not None, "concerned only with objects"
            set_defaults(write.obj, limits)

    def validate(self, write: AdmissionAttributes) -> None:
        if not self._store.has_any(PREFIX) or not _concerned(write):
            return
        for limits in self._bounded(write):
            assert write.obj is not None, "concerned only with objects"
            found = pod_errors if write.info.resource == "pods" else claim_errors
            all_errors = list(dict.fromkeys(found(write.obj, limits)))
            if all_errors:
                raise new_forbidden(write, all_errors[0] if len(all_errors) == 1 else f"[{', '.join(all_errors)}]")

    def _bounded(self, write: AdmissionAttributes) -> list[tuple[Limit, ...]]:
        """The limits of the namespace; rejects an object that would be compared with too many amounts."""
        found = list(self._ranges(write.namespace))
        bounds = sum(_size(limit) for limits in found for limit in limits)
        spec = (write.obj or {}).get("spec") or {}
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        asked = sum(len(given or ()) for one in containers for given in (one.get("resources") or {}).values())
        amounts_compared = bounds * max(1, len(containers)) + asked * sum(map(len, found))
        if amounts_compared > MOST_AMOUNTS:
            raise new_forbidden(
                write,
                f"the limits of its namespace take {amounts_compared} comparisons of amounts, and at most "
                f"{MOST_AMOUNTS} are made",
            )
        return found

    def _ranges(self, namespace: str) -> Iterator[tuple[Limit, ...]]:
        for record in self._store.list(f"{PREFIX}{namespace}/").records:
            yield self._limits(record)

    def _limits(self, record: Record) -> tuple[Limit, ...]:
        known = self._known.get(record.key)
        if known is None or known[0] != record.revision:
            known = self._known[record.key] = (record.revision, _read(record.value).spec.limits or ())
        return known[1]


def _size(limit: Limit) -> int:
    parts = (limit.min, limit.max, limit.default, limit.default_request, limit.max_limit_request_ratio)
    return sum(map(len, parts))


def _concerned(write: AdmissionAttributes) -> bool:
    info, obj = write.info, write.obj
    if info.group or obj is None or info.resource not in ("pods", "persistentvolumeclaims"):
        return False
    if write.subresource:
        if write.subresource != "resize" or info.resource != "pods" or write.operation != "UPDATE":
            return False
    elif info.resource == "pods" and write.operation == "UPDATE":
        return False  # what limits are about cannot change there
    return write.old is None or not write.old["metadata"].get("deletionTimestamp")


def set_defaults(pod: Object, limits: tuple[Limit, ...]) -> None:
    """Fill in what containers leave out, and note it in an annotation."""
    requests: dict[str, str] = {}
    maxima: dict[str, str] = {}
    for limit in limits:
        if limit.type == "Container":
            requests.update(limit.default_request)
            maxima.update(limit.default)
    if not requests and not maxima:
        return
    notes: list[str] = []
    spec: Object = pod.get("spec") or {}
    for what, field in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(field) or ():
            resources: Object = container.setdefault("resources", {})
            for word, name, defaults in (("request", "requests", requests), ("limit", "limits", maxima)):
                given = resources.get(name) or {}
                missing = sorted(key for key in defaults if key not in given)
                if missing:
                    resources[name] = {**given, **{key: defaults[key] for key in missing}}
                    notes.append(f"{', '.join(missing)} {word} for {what} {container.get('name', '')}")
    if notes:
        meta = pod["metadata"]
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        meta["annotations"] = {**(meta.get("annotations") or {}), ANNOTATION: note}


def pod_errors(pod: Object, limits: tuple[Limit, ...]) -> Iterator[str]:
    """Why the limits reject the pod."""
    spec: Object = pod.get("spec") or {}
    for limit in limits:
        if limit.type == "Container":
            for field in ("containers", "initContainers"):
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    asked, most = amounts(resources.get("requests")), amounts(resources.get("limits"))
                    yield from _validate(limit, asked, most)
        elif limit.type == "Pod":
            yield from _validate(limit, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def claim_errors(claim: Object, limits: tuple[Limit, ...]) -> Iterator[str]:
    """Why the limits reject the claim. Only its requests count, also against the maximum."""
    requested = amounts((((claim.get("spec") or {}).get("resources")) or {}).get("requests"))
    for limit in limits:
        if limit.type == "PersistentVolumeClaim":
            yield from _too_small(limit, requested, {})
            for name, bound in _sorted(limit.max):
                usage = f"maximum {name} usage per {limit.type} is {bound}"
                if name not in requested:
                    yield f"{usage}.  No request is specified"
                elif _less(bound, requested[name]):
                    yield f"{usage}, but request is {requested[name]}"


def _validate(limit: Limit, requested: Amounts, most: Amounts) -> Iterator[str]:
    yield from _too_small(limit, requested, most)
    for name, bound in _sorted(limit.max):
        usage = f"maximum {name} usage per {limit.type} is {bound}"
        if name not in most:
            yield f"{usage}.  No limit is specified"
        elif _less(bound, most[name]):
            yield f"{usage}, but limit is {most[name]}"
        elif name in requested and _less(bound, requested[name]):
            yield f"{usage}, but request is {requested[name]}"
    for name, bound in _sorted(limit.max_limit_request_ratio):
        ratio = f"{name} max limit to request ratio per {limit.type} is {bound}"
        if not requested.get(name, _ZERO):
            yield f"{ratio}, but no request is specified or request is 0"
        elif not most.get(name, _ZERO):
            yield f"{ratio}, but no limit is specified or limit is 0"
        else:
            low, high = _comparable(requested[name], most[name])
            provided = high / low
            if provided * 1000 > bound.milli_value:
                yield f"{ratio}, but provided ratio is {provided:.6f}"


def _too_small(limit: Limit, requested: Amounts, most: Amounts) -> Iterator[str]:
    for name, bound in _sorted(limit.min):
        usage = f"minimum {name} usage per {limit.type} is {bound}"
        if name not in requested:
            yield f"{usage}.  No request is specified"
        elif _less(requested[name], bound):
            yield f"{usage}, but request is {requested[name]}"
        elif name in most and _less(most[name], bound):
            yield f"{usage}, but limit is {most[name]}"


def _sorted(listed: Mapping[str, Any]) -> list[tuple[str, Quantity]]:
    return [(name, parse_quantity(str(listed[name]))) for name in sorted(listed)]


def _less(one: Quantity, other: Quantity) -> bool:
    """Compared in thousandths where those fit, else in whole units."""
    low, high = _comparable(one, other)
    return low < high


def _comparable(one: Quantity, other: Quantity) -> tuple[int, int]:
    if one.value <= _MAX_MILLI and other.value <= _MAX_MILLI:
        return one.milli_value, other.milli_value
    return one.value, other.value
