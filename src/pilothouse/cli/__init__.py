"""The commands. Each is imported when it is used, so that ``pilothouse --help`` is fast."""

from pilothouse.cli.loading import interrupted_while_loading
from pilothouse.env.lazy import lazy_exports

with lazy_exports(during=interrupted_while_loading):
    from pilothouse.cli.dispatch import kube_controller_manager, main, stand_in

__all__ = ["kube_controller_manager", "main", "stand_in"]
