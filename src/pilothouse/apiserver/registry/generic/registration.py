"""``Registration``: the declaration of one built-in kind."""

from collections.abc import Callable

import msgspec

from pilothouse.apiserver.registry.generic.printers import Printer
from pilothouse.apiserver.registry.generic.strategy import Strategy


class Registration(msgspec.Struct, frozen=True, eq=False):
    """What is known of one kind besides its rows in the table of resources (``resources``)."""

    strategy: Strategy
    """What writes of such objects do, and what is wrong with them."""
    printer: Callable[[], Printer] | None = None
    """How ``kubectl get`` shows them; without it by name and age."""
    etcd_prefix: str = ""
    """Where upstream stores them, if not under the resource's name: some errors show it
    (``pkg/kubeapiserver/default_storage_factory_builder.go``, v1.36)."""
    storage_version: str = ""
    """The version that upstream stores them in, if it is not the one that is stored here: one release after a version
    has become stable the one before could not read it yet (the same file)."""
