"""Named health checks for ``/healthz``, ``/livez`` and ``/readyz``, as in kube-controller-manager.

Source of the texts: apiserver library ``pkg/server/healthz/healthz.go``, v0.36.
"""

from collections.abc import Callable, Iterable

import msgspec

Check = Callable[[], str | None]
"""Returns None if healthy, else the reason, which is logged but not part of the response."""


def _ignore(_name: str, _endpoint: str, _passed: bool) -> None:
    return None


class Report(msgspec.Struct, frozen=True):
    """The response to a health request."""

    healthy: bool
    text: str
    failures: dict[str, str] = {}


class Health:
    """The health checks of a program, in the order in which they were added. Without any, there is one that passes."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self.observe: Callable[[str, str, bool], object] = _ignore
        """Called after each check with its name, the endpoint, and whether it passed."""

    def add(self, name: str, check: Check) -> None:
        """Add a check, or replace the one with that name."""
        self._checks[name] = check

    def remove(self, name: str) -> None:
        """Remove a check, if it exists."""
        self._checks.pop(name, None)

    def single(self, name: str) -> Report | None:
        """Run one check. None if there is none with that name."""
        check = self._checks.get(name)
        if check is None:
            return None
        reason = check()
        if reason is None:
            return Report(True, "ok")
        return Report(False, f"internal server error: {reason}\n", {name: reason})

    def report(self, endpoint: str, *, verbose: bool = False, exclude: Iterable[str] = ()) -> Report:
        """Run all checks. Reports of failures are always verbose."""
        excluded = dict.fromkeys(exclude)
        failures: dict[str, str] = {}
        lines = []
        for name, check in (self._checks or {"ping": lambda: None}).items():
            if name in excluded:
                del excluded[name]
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = check()
            self.observe(name, endpoint, reason is None)
            if reason is None:
                lines.append(f"[+]{name} ok")
            else:
                failures[name] = reason
                lines.append(f"[-]{name} failed: reason withheld")
        if excluded:
            quoted = ", ".join(f'"{name}"' for name in excluded)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failures:
            return Report(False, "\n".join([*lines, f"{endpoint} check failed", ""]), failures)
        if verbose:
            return Report(True, "\n".join([*lines, f"{endpoint} check passed", ""]))
        return Report(True, "ok")
