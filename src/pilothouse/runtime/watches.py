"""Declares what a controller watches.

The ``Watch``es are part of the descriptor, so a program can use them without importing the controller: which resources
the API server must serve, which objects an on-demand controller processes, which informers keep raw objects, which
permissions are needed. The controller gets its informers from its context, by kind; undeclared ones are rejected.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.runtime.informer import InformerFactory, SharedInformer


class UndeclaredWatch(Exception):
    """A controller requested an informer that its descriptor does not declare."""


def any_object(_obj: Any) -> bool:
    """The ``Watch.predicate`` that accepts every object."""
    return True


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One resource that a controller watches.

    Equal declarations share one watch and one cache. ``PODS.metadata``, another view or a selector is a separate watch:
    declare the whole resource if another controller watches it anyway.

    ``predicate`` selects the objects that the controller has to process. While there are none, a controller with such
    watches must not write or keep anything; it may be built when the first one appears (``runtime.on_demand``), which
    to the controller is like a restart.
    """

    kind: Kind[Any]
    """By which the controller gets its informer: ``context.informer(kind)``."""
    namespace: str = ""
    """Empty for all namespaces."""
    label_selector: str = ""
    field_selector: str = ""
    keep_raw: bool = False
    """The cache also keeps each object's JSON."""
    shared: bool = True
    """Whether the cache is shared with controllers that use the same kind (``InformerFactory.existing``)."""
    awaited: bool = True
    """Whether the controller starts only once this cache has synced."""
    option: str = ""
    """The field of the options without which this is not watched. It need not be served."""
    predicate: Callable[[Any], bool] | None = None

    def informer(self, informers: InformerFactory) -> SharedInformer[Any]:
        """The program's informer for this declaration, shared by all equal ones."""
        return informers.informer(
            self.kind,
            namespace=self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            keep_raw=self.keep_raw,
            offer=self.shared,
        )
