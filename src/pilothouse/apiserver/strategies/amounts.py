"""Names and amounts of resources: what containers request and are limited to, what nodes have.

After kubernetes' ``pkg/apis/core/validation`` and ``pkg/apis/core/helper`` (v1.36).
"""

from collections.abc import Callable
from functools import lru_cache

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import NON_NEGATIVE
from pilothouse.machinery.names import qualified_name_errors
from pilothouse.machinery.quantities import QuantityError, parse_quantity

Problems = list[FieldError]
NameCheck = Callable[[str, str], Problems]
"""What is wrong with the name of a resource at a path."""

COUNTED = frozenset(
    (
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers"),
    )
)
"""What comes in whole numbers."""
_OF_CONTAINERS = frozenset(("cpu", "memory", "ephemeral-storage"))
_STANDARD = _OF_CONTAINERS | COUNTED | {"storage", "requests.storage"}
_STANDARD |= {f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS}
_HUGE = "hugepages-"


def amount_problems(name: str, amount: object, path: str) -> list[FieldError]:
    """What is wrong with an amount (``ValidateResourceQuantityValue``). The names by which quotas count objects
    (``count/pods``) are extended ones."""
    try:
        quantity = parse_quantity(str(amount))
    except QuantityError as error:
        return [errors.invalid_value(path, amount, str(error))]
    problems = [errors.invalid_value(path, amount, NON_NEGATIVE)] if quantity.mantissa < 0 else []
    if not quantity.is_whole and (name in COUNTED or is_extended(name)):
        problems.append(errors.invalid_value(path, amount, "must be an integer"))
    return problems


def is_extended(name: str) -> bool:
    """Whether it has a domain that is not Kubernetes' own, and could be counted by quotas."""
    return not _is_native(name) and not name.startswith("requests.") and not qualified_name_errors(f"requests.{name}")


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=512)
def container_resource_texts(name: str) -> tuple[str, ...]:
    """What is wrong with the name of a container's resource (``validateContainerResourceName``)."""
    texts = tuple(qualified_name_errors(name))
    if "/" not in name:
        if name in _OF_CONTAINERS or name.startswith(_HUGE):
            return texts
        if not texts and name not in _STANDARD:
            texts = ("must be a standard resource type or fully qualified",)
        return (*texts, "must be a standard resource for containers")
    if not _is_native(name) and not is_extended(name):
        return (*texts, "doesn't follow extended resource name standard")
    return texts


def container_resource_problems(name: str, path: str) -> list[FieldError]:
    """The same, with the field."""
    return [errors.invalid_value(path, name, text) for text in container_resource_texts(name)]


def pod_resource_problems(name: str, path: str) -> list[FieldError]:
    """What is wrong with the name of a resource of a whole pod (``validatePodResourceName``)."""
    texts = qualified_name_errors(name)
    if not texts and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        texts = ["must be a standard resource type or fully qualified"]
    if texts:
        return [errors.invalid_value(path, name, text) for text in texts]
    if name in ("cpu", "memory") or name.startswith(_HUGE):
        return []
    return [errors.not_supported(path, name, ("cpu", _HUGE, "memory"))]


def requirement_problems(resources: Object, path: str, *, names: NameCheck = container_resource_problems) -> Problems:
    """What is wrong with the requests and limits of a container (``ValidateContainerResourceRequirements``), or of what
    may have others."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    problems: list[FieldError] = []
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = f"{path}.{field}[{name}]"
            problems += names(name, where)
            problems += amount_problems(name, amount, where)
            if name.startswith(_HUGE) and not _is_pages(name, amount):
                text = f"{amount} is not positive integer multiple of {name}"
                problems.append(errors.invalid_value(where, amount, text))
            if field == "requests":
                problems += _against_limit(name, amount, limits, path)
    named = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in named) and not named & {"cpu", "memory"}:
        problems.append(errors.not_allowed(path, "HugePages require cpu or memory"))
    return problems


def may_be_overcommitted(name: str) -> bool:
    """Whether more of it may be asked for than there is (``IsOvercommitAllowed``)."""
    return _is_native(name) and not name.startswith(_HUGE)


def _against_limit(name: str, amount: object, limits: Object, path: str) -> list[FieldError]:
    may_overcommit = may_be_overcommitted(name)
    limit = limits.get(name)
    if limit is None:
        if may_overcommit:
            return []
        return [errors.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    if amount == limit:
        return []
    try:
        asked, most = parse_quantity(str(amount)), parse_quantity(str(limit))
    except QuantityError:
        return []  # told already
    if not may_overcommit and asked != most:
        return [errors.invalid_value(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}")]
    if asked > most:
        text = f"must be less than or equal to {name} limit of {limit}"
        return [errors.invalid_value(f"{path}.requests", amount, text)]
    return []


def _is_pages(name: str, amount: object) -> bool:
    """Whether an amount of huge pages consists of whole ones."""
    try:
        size = parse_quantity(name.removeprefix(_HUGE))
        asked = parse_quantity(str(amount))
    except QuantityError:
        return True  # told as what is wrong with the name, or the amount
    return size.value > 0 and asked.is_whole and asked.value % size.value == 0
