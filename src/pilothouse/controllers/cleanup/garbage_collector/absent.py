"""Owners known not to exist, so that a thousand orphans of one owner cost one lookup and not a thousand.

Filled by the graph (an owner was seen to go) and by live lookups (``attempts.py``), read before each lookup.
"""

from collections import OrderedDict

from pilothouse.controllers.cleanup.garbage_collector.graph import Identity

CAPACITY = 500


class AbsentOwners:
    """The last ``capacity`` identities that were found absent or asked for.

    An entry is never wrong: uids are not used twice, so what is absent stays absent. Forgetting one costs a lookup.
    """

    __slots__ = ("_capacity", "_identities")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._identities: OrderedDict[Identity, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._identities)

    def __contains__(self, identity: Identity) -> bool:
        if identity not in self._identities:
            return False
        self._identities.move_to_end(identity)
        return True

    def add(self, identity: Identity) -> None:
        """Remember it, and forget the one that was not asked for the longest."""
        self._identities[identity] = None
        self._identities.move_to_end(identity)
        if len(self._identities) > self._capacity:
            self._identities.popitem(last=False)
