"""``Registration``: strategy, printer and storage prefix of one built-in kind."""

from collections.abc import Callable

import msgspec

from pilothouse.apiserver.registry.generic.printers import Printer
from pilothouse.apiserver.registry.generic.strategy import Strategy


class Registration(msgspec.Struct, frozen=True, eq=False):
    """The declaration of a built-in kind, in addition to its rows in the resource table (``resources``)."""

    strategy: Strategy
    """Defaults, prepares and validates the objects."""
    printer: Callable[[], Printer] | None = None
    """Creates the printer; by default name and age are printed."""
    etcd_prefix: str = ""
    """Upstream's storage prefix, if it is not the resource's name. It occurs in errors
    (``pkg/kubeapiserver/default_storage_factory_builder.go``, v1.36)."""
    storage_version: str = ""
    """Upstream's storage version, if it is not the one stored here: for one release after a version has become stable,
    upstream stores the previous one, so that a downgrade is possible (the same file)."""
