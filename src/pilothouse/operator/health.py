"""Readiness of an operator: the checks that are still pending."""

from collections.abc import Callable


class Health:
    """The pending checks of an app, by name. ``App.run`` maintains them, ``/readyz`` reports them.

    After all checks have passed, it stays ready: otherwise a replica that becomes the leader would be removed from the
    Service of its webhooks while it fills its caches.
    """

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], bool]] = {"start": lambda: False}

    def expect(self, checks: dict[str, Callable[[], bool]]) -> None:
        """Wait for these from now on, unless it was ready already."""
        if self.waits_for():
            self._checks = dict(checks)

    def replace(self, name: str, check: Callable[[], bool]) -> None:
        """Replace a known check."""
        if name in self._checks:
            self._checks[name] = check

    def divide(self, name: str, checks: dict[str, Callable[[], bool]]) -> None:
        """Replace a known check by several, each with its own name."""
        if name in self._checks:
            self._checks = {known: check for known, check in self._checks.items() if known != name} | checks

    def waits_for(self) -> tuple[str, ...]:
        """The pending checks; empty when it is ready."""
        self._checks = {name: check for name, check in self._checks.items() if not check()}
        return tuple(self._checks)
