"""What a controller watches, declared once.

The descriptor has the ``Watch``es, so that a program knows them without importing the controller: what the API server
must serve, what gives an on-demand controller something to do, which raw objects are kept, which rights the caches
need. The controller gets its informers from its context, by kind; what is not declared is refused.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.runtime.informer import InformerFactory, SharedInformer


class UndeclaredWatch(Exception):
    """A controller has asked its context for an informer that its descriptor does not declare."""


def any_object(_obj: Any) -> bool:
    """The ``Watch.predicate`` that accepts every object."""
    return True


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a controller watches.

    Controllers that declare the same share one watch and one cache. ``PODS.metadata``, another view or a selector makes
    one more of each: declare a resource whole where another controller reads it whole anyway.

    ``predicate`` says which of these objects give it something to do. A controller with such watches sends and keeps
    nothing as long as there is none of them, and may be built with the first one (``runtime.on_demand``):
    to it that is as a restart of the program.
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
    """Whether the cache is shared with controllers that read the kind likewise (``InformerFactory.existing``)."""
    awaited: bool = True
    """Whether the controller starts only once this cache has synced."""
    option: str = ""
    """The field of the options without which this is not watched. It need not be served."""
    predicate: Callable[[Any], bool] | None = None

    def informer(self, informers: InformerFactory) -> SharedInformer[Any]:
        """The program's informer for this, which all who declare the same share."""
        return informers.informer(
            self.kind,
            namespace=self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            keep_raw=self.keep_raw,
            offer=self.shared,
        )
