"""Helpers of the checks: the result, iteration over containers, and lists in messages. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

Spec = Mapping[str, Any]
Annotations = Mapping[str, str]


class Violation(msgspec.Struct, frozen=True):
    """The result of a failed check (``CheckResult``): ``ForbiddenReason`` and ``ForbiddenDetail``."""

    reason: str
    detail: str = ""


Check = Callable[[Annotations, Spec], Violation | None]


def containers(spec: Spec) -> Iterator[Mapping[str, Any]]:
    """All containers, in upstream's order (``visitContainers``)."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def names_of(spec: Spec, is_bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    """The names of the containers for which ``is_bad`` is true."""
    return [container.get("name", "") for container in containers(spec) if is_bad(container)]


def values_of(
    spec: Spec, forbidden_values: Callable[[Mapping[str, Any]], Iterable[str]]
) -> tuple[list[str], list[str]]:
    """The names of the containers for which ``forbidden_values`` returns values, and these values, sorted."""
    names, all_values = [], set()
    for container in containers(spec):
        values = list(forbidden_values(container))
        if values:
            names.append(container.get("name", ""))
            all_values.update(values)
    return names, sorted(all_values)


def security_context_of(pod_or_container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The security context of a pod or container; empty if there is none."""
    security_context: Mapping[str, Any] = pod_or_container.get("securityContext") or {}
    return security_context


def named(noun: str, names: Sequence[str], plural: str = "") -> str:
    """``container "a"``, ``containers "a", "b"``."""
    return f"{noun if len(names) == 1 else plural or noun + 's'} {quoted(names)}"


def quoted(names: Iterable[str]) -> str:
    """``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def setters(pod: bool, containers: Sequence[str]) -> str:
    """``pod and containers "a", "b"``: the subject of a violation text; empty for none."""
    return " and ".join((["pod"] if pod else []) + ([named("container", containers)] if containers else []))
