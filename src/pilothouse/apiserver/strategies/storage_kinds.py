"""The kinds of storage.k8s.io: classes, drivers, and what drivers say of nodes.

After kubernetes' ``pkg/apis/storage/{v1/defaults.go,validation}`` and ``pkg/registry/storage`` (v1.36).
"""

from collections.abc import Mapping, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.drivers import driver_problems
from pilothouse.apiserver.strategies.filling import IMMUTABLE, NON_NEGATIVE, child, fill, fixed, number_problems
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.apiserver.strategies.volume_sources import inline_volume_problems
from pilothouse.machinery.names import dns_subdomain_errors, qualified_name_errors
from pilothouse.machinery.quantities import QuantityError, canonical, parse_quantity

_LIFECYCLES = ("Persistent", "Ephemeral")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_MOST_PARAMETERS = 512
_LARGEST_PARAMETERS = 256 * 1024
_LARGEST_METADATA = 256 * 1024
_LONGEST_MESSAGE = 1024
_LONGEST_NODE_ID = 256
_SHORTEST_PERIOD = 10
_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 1 << 32
_CODES = "must be between 0 and 2147483647, inclusive"


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(name.encode()) + len(text.encode()) for name, text in texts.items())


def _class_problems(of: Object, driver_field: str) -> list[FieldError]:
    """The driver of a class and its parameters."""
    driver, parameters = (of.get(driver_field) or "").lower(), of.get("parameters") or {}
    problems = [] if driver else [errors.required(driver_field)]
    if driver:
        problems += [errors.invalid_value(driver_field, driver, text) for text in qualified_name_errors(driver)]
    if len(parameters) > _MOST_PARAMETERS:
        return [*problems, errors.too_long("parameters", _MOST_PARAMETERS)]
    if "" in parameters:
        problems.append(errors.invalid_value("parameters", "", "field can not be empty."))
    if _size(parameters) > _LARGEST_PARAMETERS:
        problems.append(errors.too_long("parameters", _LARGEST_PARAMETERS))
    return problems


def topology_problems(terms: Sequence[Object], path: str) -> list[FieldError]:
    """What is wrong with terms that select nodes for volumes (``ValidateTopologySelectorTerm``)."""
    problems: list[FieldError] = []
    # Upstream's list begins with an empty term for each there is, of which a term without expressions is a duplicate.
    before: list[dict[str, frozenset[str]]] = [{} for _ in terms]
    for position, term in enumerate(terms):
        where = f"{path}[{position}].matchLabelExpressions"
        wanted: dict[str, frozenset[str]] = {}
        for number, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key") or "", expression.get("values") or ()
            if not values:
                problems.append(errors.required(f"{where}[{number}].values"))
            problems += [
                errors.duplicate(f"{where}[{number}].values[{index}]", value)
                for index, value in enumerate(values)
                if value in values[:index]
            ]
            problems += [
                errors.invalid_value(f"{where}[{number}].key", key, text) for text in qualified_name_errors(key)
            ]
            if key in wanted:
                problems.append(errors.duplicate(f"{where}[{number}].key", key))
            wanted[key] = frozenset(values)
        problems += [errors.duplicate(where, "") for each in before if each == wanted]
        before.append(wanted)
    return problems


class StorageClassStrategy(Strategy):
    """Who provisions, and how. Only what concerns future volumes may change."""

    def default(self, obj: Object) -> None:
        fill(obj, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})

    def validate(self, obj: Object) -> list[FieldError]:
        problems = _class_problems(obj, "provisioner")
        if obj["reclaimPolicy"] not in ("Delete", "Retain"):
            problems.append(errors.not_supported("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain")))
        if obj["volumeBindingMode"] not in _BINDING:
            problems.append(errors.not_supported("volumeBindingMode", obj["volumeBindingMode"], _BINDING))
        return problems + topology_problems(obj.get("allowedTopologies") or (), "allowedTopologies")

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        stays = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return self.validate_again(obj) + fixed(obj, old, "", stays)


class DriverStrategy(Strategy):
    """CSIDrivers: a flag for everything that a driver may want."""

    def default(self, obj: Object) -> None:
        fill(
            child(obj, "spec"),
            {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "volumeLifecycleModes": ["Persistent"],
                "requiresRepublish": False,
                "seLinuxMount": False,
            },
        )

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        policy, tokens = spec.get("fsGroupPolicy"), spec.get("tokenRequests") or ()
        if policy not in _GROUP_POLICIES:
            problems.append(errors.not_supported("spec.fsGroupPolicy", policy, _GROUP_POLICIES))
        problems += _token_problems(tokens, "spec.tokenRequests")
        problems += [
            errors.not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
            for mode in spec.get("volumeLifecycleModes") or ()
            if mode not in _LIFECYCLES
        ]
        period, in_secrets = spec.get("nodeAllocatableUpdatePeriodSeconds"), spec.get("serviceAccountTokenInSecrets")
        if period is not None and period < _SHORTEST_PERIOD:
            where, text = "spec.nodeAllocatableUpdatePeriodSeconds", "must be greater than or equal to 10 seconds"
            problems.append(errors.invalid_value(where, period, text))
        if in_secrets is not None and not tokens:
            text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            problems.append(errors.invalid_value("spec.serviceAccountTokenInSecrets", in_secrets, text))
        if spec.get("preventPodSchedulingIfMissing") is not None:
            text = "preventPodSchedulingIfMissing requires the VolumeLimitScaling feature gate to be enabled"
            problems.append(errors.not_allowed("spec.preventPodSchedulingIfMissing", text))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = self.validate_again(obj)
        required = obj["spec"].get("attachRequired")
        if required != old["spec"].get("attachRequired"):
            problems.append(errors.invalid_value("spec.attachedRequired", required, IMMUTABLE))  # called so upstream
        return problems + fixed(obj["spec"], old["spec"], "spec", ("volumeLifecycleModes",))


def _token_problems(requests: Sequence[Object], path: str) -> list[FieldError]:
    """The tokens that a driver asks for: one for each audience."""
    problems: list[FieldError] = []
    audiences: list[str] = []
    for position, request in enumerate(requests):
        where, audience, seconds = (
            f"{path}[{position}]",
            request.get("audience") or "",
            request.get("expirationSeconds"),
        )
        if audience in audiences:
            problems.append(errors.duplicate(f"{where}.audience", audience))
            continue
        audiences.append(audience)
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            text = "may not specify a duration less than 10 minutes"
            problems.append(errors.invalid_value(f"{where}.expirationSeconds", seconds, text))
        if seconds is not None and seconds > _LONGEST_TOKEN:
            text = "may not specify a duration larger than 2^32 seconds"
            problems.append(errors.invalid_value(f"{where}.expirationSeconds", seconds, text))
    return problems


class DriverNodeStrategy(Strategy):
    """CSINodes: which drivers a node has. A driver's entry is replaced by removing and adding it."""

    def finish(self, obj: Object) -> None:
        for driver in child(obj, "spec").setdefault("drivers", None) or ():
            driver.setdefault("topologyKeys", None)

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        seen: list[str] = []
        for position, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            path, name = f"spec.drivers[{position}]", driver.get("name") or ""
            problems += driver_problems(name, f"{path}.name")
            problems += _node_id_problems(driver.get("nodeID") or "", f"{path}.nodeID")
            problems += number_problems(driver.get("allocatable") or {}, f"{path}.allocatable", ("count",))
            if name in seen:
                problems.append(errors.duplicate(f"{path}.name", name))
            seen.append(name)
            problems += _topology_key_problems(driver.get("topologyKeys") or (), path)
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        before = {driver.get("name"): driver for driver in (old.get("spec") or {}).get("drivers") or ()}
        problems = self.validate_again(obj)
        for driver in (obj.get("spec") or {}).get("drivers") or ():
            known = before.get(driver.get("name"))
            if known is not None and _fixed_driver(driver) != _fixed_driver(known):
                problems.append(errors.invalid_value("spec.drivers", _fixed_driver(driver), IMMUTABLE))
        return problems


def _node_id_problems(node: str, path: str) -> list[FieldError]:
    if not node:
        return [errors.required(path)]
    if len(node.encode()) > _LONGEST_NODE_ID:
        return [errors.invalid_value(path, node, f"must be {_LONGEST_NODE_ID} characters or less")]
    return []


def _topology_key_problems(keys: Sequence[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for position, key in enumerate(keys):
        if not key:
            problems.append(errors.required(path))
        if key in keys[:position]:
            problems.append(errors.duplicate(path, key))
        problems += [errors.invalid_value(path, keys, text) for text in qualified_name_errors(key)]
    return problems


def _fixed_driver(driver: Object) -> Object:
    """What of a driver never changes, as messages print it. How many volumes it can attach may."""
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


class AttachmentStrategy(Strategy):
    """VolumeAttachments: the wish never changes."""

    def finish(self, obj: Object) -> None:
        obj["status"] = {"attached": False, **(obj.get("status") or {})}

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        name = (spec.get("source") or {}).get("persistentVolumeName")
        # Asked of new ones only, and the first question once more.
        problems = self._problems(spec) + driver_problems(spec.get("attacher") or "", "spec.attacher")
        if name is not None:
            told = dns_subdomain_errors(name)
            problems += [errors.invalid_value("spec.source.persistentVolumeName", name, text) for text in told]
        return problems

    @staticmethod
    def _problems(spec: Object) -> list[FieldError]:
        node = spec.get("nodeName") or ""
        problems = [] if spec.get("attacher") else [errors.required("spec.attacher")]
        problems += _source_problems(spec.get("source") or {}, "spec.source")
        return problems + [errors.invalid_value("spec.nodeName", node, text) for text in dns_subdomain_errors(node)]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self._problems(obj.get("spec") or {}) * self.judgements.spec + fixed(obj, old, "", ("spec",))

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status = obj.get("status") or {}
        problems: list[FieldError] = []
        if _size(status.get("attachmentMetadata") or {}) > _LARGEST_METADATA:
            problems.append(errors.too_long("status.attachmentMetadata", _LARGEST_METADATA))
        for field in ("attachError", "detachError"):
            problems += _error_problems(status.get(field) or {}, f"status.{field}")
        return problems * self.judgements.spec


def _source_problems(source: Object, path: str) -> list[FieldError]:
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if name is None and inline is None:
        return [errors.required(path, one)]
    if name is not None and inline is not None:
        return [errors.not_allowed(path, one)]
    if inline is not None:
        return inline_volume_problems(inline, f"{path}.inlineVolumeSpec")
    return (
        [] if name else [errors.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]
    )


def _error_problems(error: Object, path: str) -> list[FieldError]:
    """Why a volume could not be attached, or detached."""
    problems: list[FieldError] = []
    if len((error.get("message") or "").encode()) > _LONGEST_MESSAGE:
        # Upstream tells another limit than the one that it means.
        problems.append(errors.too_long(f"{path}.message", _LARGEST_METADATA))
    code = error.get("errorCode")
    if code is not None and code < 0:
        problems.append(errors.invalid_value(f"{path}.errorCode", code, _CODES))
    return problems


class AttributesClassStrategy(Strategy):
    """VolumeAttributesClasses never change."""

    def validate(self, obj: Object) -> list[FieldError]:
        problems = _class_problems(obj, "driverName")
        if not obj.get("parameters"):
            problems.append(errors.required("parameters", "must contain at least one key/value pair"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = [
            errors.not_allowed(field, f"updates to {field} are forbidden.")
            for field in ("driverName", "parameters")
            if obj.get(field) != old.get(field)
        ]
        return problems + self.validate_again(obj)


class CapacityStrategy(Strategy):
    """CSIStorageCapacities: how much a driver could provision where."""

    def default(self, obj: Object) -> None:
        for field in ("capacity", "maximumVolumeSize"):
            if obj.get(field) is not None:
                obj[field] = canonical(str(obj[field]))

    def validate(self, obj: Object) -> list[FieldError]:
        name, amount = obj.get("storageClassName") or "", obj.get("capacity")
        problems = selector_problems(obj.get("nodeTopology") or {}, "nodeTopology")
        problems += [errors.invalid_value("storageClassName", name, text) for text in dns_subdomain_errors(name)]
        if amount is not None and _is_negative(amount):
            problems.append(errors.invalid_value("capacity", amount, NON_NEGATIVE))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj, old, "", ("nodeTopology", "storageClassName"))


def _is_negative(amount: str) -> bool:
    try:
        return parse_quantity(amount).mantissa < 0
    except QuantityError:
        return False  # which its type tells
