"""Whether an operator is ready: what it still waits for before it does its work."""

from collections.abc import Callable


class Health:
    """What an app waits for, by name. ``App.run`` fills it, ``/readyz`` shows it.

    Once nothing is left to wait for, it stays ready: a replica that begins to lead would else be taken out of the
    Service of its webhooks for as long as it fills its caches.
    """

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], bool]] = {"start": lambda: False}

    def expect(self, checks: dict[str, Callable[[], bool]]) -> None:
        """Wait for these from now on, unless it was ready already."""
        if self.waits_for():
            self._checks = dict(checks)

    def replace(self, name: str, check: Callable[[], bool]) -> None:
        """Another check in the place of a known one."""
        if name in self._checks:
            self._checks[name] = check

    def waits_for(self) -> tuple[str, ...]:
        """What is missing; nothing once it is ready."""
        self._checks = {name: check for name, check in self._checks.items() if not check()}
        return tuple(self._checks)
