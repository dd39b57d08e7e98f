"""Deletes objects whose owners are gone, keeps owners until their dependents are gone (foreground deletion),
and orphans dependents.

Behaviour: an object is deleted only after live reads of it and of every owner that it names found no owner that exists
(apart from owners that are themselves waiting for it to go), and only in the state in which it was read. A
reference counts with all its coordinates: an owner of another kind, name or namespace is no owner, and an owner that
was deleted and made again is another one. An object with a reference that cannot be checked, because its kind is not
served, is never deleted. With one owner left the object stays and loses the references to the others.
``foregroundDeletion`` keeps an owner until no dependent blocks it; ``orphan`` keeps it until no dependent names it.

Not guaranteed: an order among objects, and that a dependent that was created in the same moment in which its owner was
orphaned has been seen.

The work grows with what changes: an event of an object without owner, dependents or deletion costs a dict lookup.
docs/controllers/garbage_collector.md lists its triggers and its differences from upstream.
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
