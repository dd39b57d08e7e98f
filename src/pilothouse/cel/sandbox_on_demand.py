"""A process for long expressions that is started with the first of them."""

from typing import TYPE_CHECKING

from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.cel.sandbox import Sandbox

with lazy_imports():
    from pilothouse.cel import sandbox


class SandboxOnDemand:
    """``get`` is a ``limits.GetEvaluator``."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None

    def get(self) -> "Sandbox":
        """The process; the first call creates it."""
        if self._sandbox is None:
            self._sandbox = sandbox.Sandbox()
        return self._sandbox

    def stop(self) -> None:
        """Stop the process if it was started."""
        if self._sandbox is not None:
            self._sandbox.stop()
