"""What this controller knows sooner than its caches, and longer: claims that it has made, pods that have gone.

Written and read by ``controller``. Mirrors client-go's ``tools/cache/mutation_cache.go`` and ``uid_cache.go`` of v1.36
``pkg/controller/resourceclaim``.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from pilothouse.api.resource import ResourceClaim
from pilothouse.controllers.devices.resourceclaim.decide import owner_of
from pilothouse.machinery.resource_versions import compare

MAX_PODS = 500


class MadeClaims:
    """Claims that were made and that the cache may not show yet, by the pod that they were made for.

    A claim is remembered until the cache has come past its creation. From then on the cache knows better, also when it
    has no such claim: it was deleted again in between. Where versions cannot be compared, it is remembered until the
    cache shows it or its pod goes. ``read_version`` is how far the cache has come.
    """

    def __init__(self, read_version: Callable[[], str]) -> None:
        self._read_version = read_version
        self._by_pod: dict[str, dict[str, ResourceClaim]] = {}

    def put(self, claim: ResourceClaim) -> None:
        """A claim exists."""
        owner = owner_of(claim.metadata)
        if owner is not None:
            self._by_pod.setdefault(owner.uid, {})[claim.metadata.name] = claim

    def shown(self, claim: ResourceClaim) -> None:
        """The cache has the claim, or had it."""
        owner = owner_of(claim.metadata)
        if owner is not None:
            self._drop(owner.uid, [claim.metadata.name])

    def of(self, pod_uid: str) -> list[ResourceClaim]:
        """The claims of that pod that the cache cannot know of, by name."""
        known = self._by_pod.get(pod_uid)
        if known is None:
            return []
        read = self._read_version()
        self._drop(pod_uid, [name for name, claim in known.items() if _is_past(read, claim.metadata.resource_version)])
        return [known[name] for name in sorted(known)]

    def forget(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._by_pod.pop(pod_uid, None)

    def _drop(self, pod_uid: str, names: Iterable[str]) -> None:
        known = self._by_pod.get(pod_uid)
        if known is not None:
            for name in names:
                known.pop(name, None)
            if not known:
                del self._by_pod[pod_uid]


def _is_past(read: str, made: str) -> bool:
    order = compare(read, made)
    return order is not None and order >= 0


class GonePods:
    """The last pods that were seen to go. Of others the API server must say that they are gone: the cache may not have
    heard of them yet."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """A pod is gone."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > MAX_PODS:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        """Whether that pod is known to be gone."""
        if uid not in self._uids:
            return False
        self._uids.move_to_end(uid)
        return True
