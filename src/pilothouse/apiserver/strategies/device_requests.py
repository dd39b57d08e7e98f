"""Names of requests in a claim for devices, and references to them.

After ``validateRequestNameRef`` in kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36).
"""

from collections.abc import Iterable, Mapping, Set

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.device_parts import label_problems, set_problems

_MOST = 32
_UNKNOWN = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def request_names(requests: Iterable[Object]) -> dict[str, Set[str]]:
    """The names of requests, each with those of its choices."""
    return {
        request.get("name") or "": {one.get("name") or "" for one in request.get("firstAvailable") or ()}
        for request in requests
    }


def reference_problems(references: list[str], path: str, names: Mapping[str, Set[str]]) -> list[FieldError]:
    """What is wrong with references that are told apart."""
    return set_problems(references, _MOST, path, lambda one, where: reference_fault(one, where, names), lambda one: one)


def reference_fault(reference: str, path: str, names: Mapping[str, Set[str]]) -> list[FieldError]:
    """What is wrong with one."""
    parts = reference.split("/")
    if len(parts) > 2:
        return [errors.invalid_value(path, reference, _UNKNOWN)]
    problems = [problem for part in parts for problem in label_problems(part, path)]
    if parts[0] not in names or (len(parts) == 2 and parts[1] not in names[parts[0]]):
        problems.append(errors.invalid_value(path, reference, _UNKNOWN))
    return problems
