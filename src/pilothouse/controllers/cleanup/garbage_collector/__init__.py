"""Deletes objects whose owners are gone, keeps owners until their dependents are gone (foreground deletion), and
orphans dependents.

Behaviour: an object is deleted only if live reads of it and of all its owners found no existing owner (except owners
that wait for its deletion), and only in the state that was read. An owner reference is compared with all coordinates:
an owner of another kind, name or namespace does not count, and an owner that was deleted and created again is another
one. An object with a reference that cannot be checked, because its kind is not served, is never deleted. If an owner
remains, the object stays and loses its references to the others. ``foregroundDeletion`` keeps an owner until no
dependent blocks it; ``orphan`` keeps it until no dependent refers to it.

Not guaranteed: an order among objects, and that a dependent was observed that was created at the moment in which its
owner was orphaned.

The cost of an event of an object without owner, dependents or deletion is a dict lookup.
docs/controllers/garbage_collector.md has the triggers and the differences from upstream.
"""

import msgspec

from pilothouse.controllers.shared.collector_flags import ENABLE_GARBAGE_COLLECTOR
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, FlagSpec


class GarbageCollectorOptions(msgspec.Struct, frozen=True, kw_only=True):
    concurrent_syncs: int = 20
    enabled: bool = True
    ignored: tuple[str, ...] = ("events", "events.events.k8s.io")
    """Resources (``name.group``) that are neither collected nor own anything."""


DESCRIPTOR = Descriptor(
    name="garbage-collector-controller",
    aliases=("garbagecollector",),
    client_name="generic-garbage-collector",
    qps_factor=2.0,
    options=GarbageCollectorOptions,
    flags=(
        flag_spec(
            "concurrent_syncs",
            "concurrent-gc-syncs",
            INT32,
            20,
            "The number of garbage collector workers that are allowed to sync concurrently.",
        ),
        FlagSpec(field="enabled", flag=ENABLE_GARBAGE_COLLECTOR),
    ),
    watches_discovered=True,
    package=__name__,
)
