"""Created claims and deleted pods that the caches may not show. Upstream: client-go's ``tools/cache/mutation_cache.go``
and ``uid_cache.go`` of v1.36 ``pkg/controller/resourceclaim``."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from pilothouse.api.resource import ResourceClaim
from pilothouse.controllers.devices.resourceclaim.decide import owner_of
from pilothouse.machinery.resource_versions import compare

MAX_PODS = 500


class CreatedClaims:
    """Created claims that the cache may not have yet, by the pod that they were created for.

    A claim is kept until the cache is newer than its creation; if the cache lacks it then, it was deleted. If versions
    cannot be compared, it is kept until the cache has it or its pod is deleted.
    """

    def __init__(self, read_version: Callable[[], str]) -> None:
        self._read_version = read_version
        self._by_pod: dict[str, dict[str, ResourceClaim]] = {}

    def put(self, claim: ResourceClaim) -> None:
        owner = owner_of(claim.metadata)
        if owner is not None:
            self._by_pod.setdefault(owner.uid, {})[claim.metadata.name] = claim

    def remove_if_cached(self, claim: ResourceClaim) -> None:
        owner = owner_of(claim.metadata)
        if owner is not None:
            self._drop(owner.uid, [claim.metadata.name])

    def of(self, pod_uid: str) -> list[ResourceClaim]:
        """The claims of that pod that the cache may lack, by name."""
        claims = self._by_pod.get(pod_uid)
        if claims is None:
            return []
        read = self._read_version()
        self._drop(
            pod_uid, [name for name, claim in claims.items() if _has_passed(read, claim.metadata.resource_version)]
        )
        return [claims[name] for name in sorted(claims)]

    def forget(self, pod_uid: str) -> None:
        self._by_pod.pop(pod_uid, None)

    def _drop(self, pod_uid: str, names: Iterable[str]) -> None:
        claims = self._by_pod.get(pod_uid)
        if claims is not None:
            for name in names:
                claims.pop(name, None)
            if not claims:
                del self._by_pod[pod_uid]


def _has_passed(read: str, created: str) -> bool:
    order = compare(read, created)
    return order is not None and order >= 0


class DeletedPods:
    """The last pods that were deleted. For others a live read is required, because they may not be in the cache yet."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > MAX_PODS:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        if uid not in self._uids:
            return False
        self._uids.move_to_end(uid)
        return True
