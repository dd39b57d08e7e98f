"""Deletes the content of terminating namespaces, reports the progress in their conditions, and finalizes them.

Behaviour: a namespace is synced five seconds after it was observed terminating, so that every API server has observed
that and nothing new is created in it. Pods are deleted first, and nothing else while there are pods. Everything is
deleted in the background, as a collection if the server supports that. Five conditions of the namespace report what
remains and why. The finalizer ``kubernetes`` is removed only after a sync that found no resources and had no errors,
including discovery.

Not guaranteed: an order among the resources after pods, and that objects with finalizers of others ever go.

docs/controllers/namespace.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.core import NAMESPACES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import DURATION, INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch


class NamespaceOptions(msgspec.Struct, frozen=True, kw_only=True):
    concurrent_syncs: int = 10
    sync_period: float = 300.0


DESCRIPTOR = Descriptor(
    name="namespace-controller",
    aliases=("namespace",),
    client_name="namespace-controller",
    qps_factor=20.0,
    burst_factor=100,
    options=NamespaceOptions,
    flags=(
        flag_spec(
            "concurrent_syncs",
            "concurrent-namespace-syncs",
            INT32,
            10,
            "The number of namespace objects that are allowed to sync concurrently. "
            "Larger number = more responsive namespace termination, but more CPU (and network) load",
        ),
        flag_spec(
            "sync_period",
            "namespace-sync-period",
            DURATION,
            300.0,
            "The period for syncing namespace life-cycle updates",
        ),
    ),
    watches=(Watch(kind=NAMESPACES, predicate=lambda namespace: namespace.metadata.deletion_timestamp is not None),),
    package=__name__,
)
