"""ComponentStatuses, of which there are none."""

from pilothouse.apiserver.strategies.base import Strategy


class ComponentStrategy(Strategy):
    """ComponentStatuses, of which there are none: nobody probes anything here."""

    notices = ("v1 ComponentStatus is deprecated in v1.19+",)
