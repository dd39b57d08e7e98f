"""What checks share: the result, going through containers, and the way lists are put into sentences. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

Spec = Mapping[str, Any]
Annotations = Mapping[str, str]


class Violation(msgspec.Struct, frozen=True):
    """One check that failed: what it is about, and what exactly is wrong."""

    reason: str
    detail: str = ""


Check = Callable[[Annotations, Spec], Violation | None]


def containers(spec: Spec) -> Iterator[Mapping[str, Any]]:
    """Every container, in upstream's order."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(field) or ()


def names_of(spec: Spec, is_bad: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    """The names of the containers that are bad."""
    return [container.get("name", "") for container in containers(spec) if is_bad(container)]


def values_of(spec: Spec, bad: Callable[[Mapping[str, Any]], Iterable[str]]) -> tuple[list[str], list[str]]:
    """The names of the containers with bad values, and these values, sorted."""
    names, found = [], set()
    for container in containers(spec):
        values = list(bad(container))
        if values:
            names.append(container.get("name", ""))
            found.update(values)
    return names, sorted(found)


def security(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """The security context of a pod or container; empty if there is none."""
    found: Mapping[str, Any] = one.get("securityContext") or {}
    return found


def named(word: str, names: Sequence[str], many: str = "") -> str:
    """``container "a"``, ``containers "a", "b"``."""
    return f"{word if len(names) == 1 else many or word + 's'} {quoted(names)}"


def quoted(names: Iterable[str]) -> str:
    """``"a", "b"``."""
    return ", ".join(f'"{name}"' for name in names)


def setters(pod: bool, bad: Sequence[str]) -> str:
    """``pod and containers "a", "b"``: what set something; empty for none."""
    return " and ".join((["pod"] if pod else []) + ([named("container", bad)] if bad else []))
