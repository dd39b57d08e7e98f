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


def values_of(spec: Spec, bad: Callable[[Mapping[str, Any]], Iterable[str]]) -> tuple[list[str], list[str]]:
    """The names of the containers for which ``bad`` returns values, and these values, sorted."""
    names, found = [], set()
    for container in containers(spec):
        values = list(bad(container))
        if values:
            names.append(container.get("name", ""))
            found.update(values)
    return names, sorted(found)


def security_context_of(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """The security context of a pod or container; empty if there is none."""
    found: Mapping[str, Any] = one.get("securityContext") or {}
    return found


def named(noun: str, names: Sequence[str], plural: str = "") -> str:
    """``container "a"``, ``containers "a", "b"``."""
    return f"{noun if len(names) == 1 else plural or noun + 's'} {quoted(names)}"


def quoted(names: Iterable[str]) -> str:
    """``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def setters(pod: bool, bad: Sequence[str]) -> str:
    """``pod and containers "a", "b"``: the subject of a violation text; empty for none."""
    return " and ".join((["pod"] if pod else []) + ([named("container", bad)] if bad else []))
