"""The claims of pods: what is known of them, what was promised and is not written yet, and the writing.

A decision counts at once: the volume that a pod is to get is nobody else's, and a claim that was given a node keeps it,
before the API server has heard of either (upstream's assume caches). ``pod_volumes`` judges, ``scheduler`` calls. As
kube-scheduler v1.36 ``pkg/scheduler/framework/plugins/volumebinding``: bound volumes, and claims whose class has
``WaitForFirstConsumer``; free room (CSIStorageCapacity), zones by label, limits per node and ReadWriteOncePod are not
looked at.
"""

import asyncio
from collections.abc import Callable

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, Node, PersistentVolumeClaim
from pilothouse.api.storage import PERSISTENT_VOLUMES, STORAGE_CLASSES, PersistentVolume
from pilothouse.client import Client
from pilothouse.controllers.shared.volume_links import Known, bound_volume, known, with_annotations
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import InformerFactory, object_key
from pilothouse.scheduler.pod_volumes import UNBOUND, Plan, PodVolumes, Waiting
from pilothouse.scheduler.wish import Wish
from pilothouse.semantics.volumes import (
    SELECTED_NODE,
    claim_class,
    is_fully_bound,
    is_made_for,
    is_reachable,
    refers_to,
    volume_class,
    waits_for_consumer,
)

BIND_SECONDS = 600.0
"""How long a pod waits for its volumes before it is decided anew (``bindTimeoutSeconds``)."""
CLASS_INDEX = "class"


class NotBound(Exception):
    """The volumes did not come, or came where the node cannot reach them."""


class Promise(msgspec.Struct):
    """A plan that is being carried out. ``written`` has, by claim, the version from which it is to be seen."""

    plan: Plan
    uid: str
    written: dict[str, str]


def _by_class(volume: PersistentVolume) -> tuple[str]:
    return (volume_class(volume),)


class Volumes:
    """See the module. ``changed`` is called with the namespace and name of a claim that came or changed, and with two
    empty texts when it is volumes or classes that did."""

    def __init__(self, client: Client, informers: InformerFactory, changed: Callable[[str, str], None]) -> None:
        self._client = client
        self._changed = changed
        self._claims = informers.informer(PERSISTENT_VOLUME_CLAIMS, keep_raw=True)
        self._volumes = informers.informer(PERSISTENT_VOLUMES, keep_raw=True)
        self._classes = informers.informer(STORAGE_CLASSES)
        self._volumes.cache.add_index(CLASS_INDEX, _by_class)
        self._given: dict[str, str] = {}
        """Which claim a volume was promised to, by name, until the volume says so itself."""
        self._told: dict[str, str] = {}
        """For which node the volume of a claim will be made, until the claim says so itself."""
        self._bells: dict[str, asyncio.Event] = {}
        """Rung for pods that wait for their volumes, by the pod's uid."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Which pods wait for a claim, by the claim's key: uids."""
        self.state = 0
        """Another number whenever anything is different: for whoever remembers answers."""
        self._claims.add_handler(
            lambda claim, _initial: self._see_claim(claim),
            lambda _old, claim: self._see_claim(claim),
            lambda claim, _unknown: self._see_claim(claim),
            resync_seconds=0.0,
        )
        self._volumes.add_handler(
            lambda volume, _initial: self._see_volume(volume),
            lambda _old, volume: self._see_volume(volume),
            lambda volume, _unknown: self._see_volume(volume),
            resync_seconds=0.0,
        )
        self._classes.add_handler(
            lambda _class, _initial: self._notice("", ""),
            lambda _old, _class: self._notice("", ""),
            resync_seconds=0.0,
        )

    async def wait_synced(self) -> None:
        """Return once everything is known."""
        for informer in (self._claims, self._volumes, self._classes):
            await informer.wait_synced()

    # What happens

    def _see_claim(self, claim: PersistentVolumeClaim) -> None:
        key = object_key(claim.metadata)
        if claim.spec.volume_name or SELECTED_NODE in claim.metadata.annotations:
            self._told.pop(key, None)
        self._ring_for(key)
        self._notice(claim.metadata.namespace, claim.metadata.name)

    def _see_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            self._given.pop(volume.metadata.name, None)
            self._ring_for(f"{reference.namespace}/{reference.name}")
        self._notice("", "")

    def _ring_for(self, claim: str) -> None:
        for uid in self._waiting.get(claim, ()):
            self._bells[uid].set()

    def _notice(self, namespace: str, name: str) -> None:
        self.state += 1
        self._changed(namespace, name)

    def pod_gone(self, uid: str) -> None:
        """The pod needs no volumes any more, should it have waited for any."""
        bell = self._bells.get(uid)
        if bell is not None:
            bell.set()

    def node_gone(self) -> None:
        """Pods may wait for volumes on a node that is no longer there."""
        for bell in self._bells.values():
            bell.set()

    # What a decision looks at

    def of(self, wish: Wish) -> PodVolumes:
        """The claims of a pod, as they are now."""
        bound: list[PersistentVolume | None] = []
        waiting: list[Waiting] = []
        immediate = False
        for name in wish.claims:
            claim = self._claims.cache.get(f"{wish.namespace}/{name}")
            problem = _problem(claim, name, ephemeral=name in wish.ephemeral_claims, wish=wish)
            if claim is None or problem:
                return PodVolumes(problem=problem)
            if is_fully_bound(claim):
                bound.append(self._volumes.cache.get(claim.spec.volume_name))
                continue
            class_ = self._classes.cache.get(claim_class(claim))
            # Who asks for a certain volume is bound at once, whatever its class.
            if class_ is None or not waits_for_consumer(class_) or claim.spec.volume_name:
                immediate = True
                continue
            key = object_key(claim.metadata)
            node = claim.metadata.annotations.get(SELECTED_NODE) or self._told.get(key, "")
            waiting.append(Waiting(claim, class_, node, () if node else self._free(claim)))
        if immediate:
            return PodVolumes(problem=UNBOUND)
        return PodVolumes(bound=bound, waiting=waiting, taken=frozenset(self._given))

    def _free(self, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, ...]:
        """The volumes of its class that are nobody's, or reserved for it."""
        return tuple(
            volume
            for volume in self._volumes.cache.by_index(CLASS_INDEX, claim_class(claim))
            if volume.spec.claim_ref is None or refers_to(volume, claim)
        )

    # Carrying out

    def promise(self, wish: Wish, plan: Plan) -> Promise:
        """From now on the volumes of a plan are given and the nodes of its claims settled."""
        for volume, claim in plan.given:
            self._given[volume.metadata.name] = object_key(claim.metadata)
        for claim in plan.told:
            self._told[object_key(claim.metadata)] = plan.node_name
        self.state += 1
        return Promise(plan, wish.pod.metadata.uid, {})

    def break_promise(self, promise: Promise) -> None:
        """What was not written may be had by others."""
        for volume, _claim in promise.plan.given:
            self._given.pop(volume.metadata.name, None)
        for claim in promise.plan.told:
            self._told.pop(object_key(claim.metadata), None)
        self._notice("", "")

    async def write(self, promise: Promise) -> None:
        """Tell the API server. Raises what it answers; what was written before that stays, and is found again."""
        plan = promise.plan
        for volume, claim in plan.given:
            name = volume.metadata.name
            raw = self._volumes.cache.raw(name)
            if raw is None:
                raise NotBound(f'failed to check binding: could not find v1.PersistentVolume "{name}"')
            body = bound_volume(Known(volume, raw), claim)
            if body is not None:
                await self._client.update(PERSISTENT_VOLUMES.raw, name, body)
            promise.written[object_key(claim.metadata)] = ""
        for claim in plan.told:
            key, meta = object_key(claim.metadata), claim.metadata
            raw = self._claims.cache.raw(key)
            if raw is None:
                raise NotBound(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
            newest = known(raw, PersistentVolumeClaim)
            version = newest.object.metadata.resource_version
            annotations = newest.object.metadata.annotations
            if annotations.get(SELECTED_NODE) != plan.node_name:
                body = with_annotations(newest, {**annotations, SELECTED_NODE: plan.node_name})
                answer = await self._client.update(PERSISTENT_VOLUME_CLAIMS.raw, meta.name, body, meta.namespace)
                version = known(bytes(answer), PersistentVolumeClaim).object.metadata.resource_version
            promise.written[key] = version

    async def wait_bound(self, promise: Promise, node: Callable[[], Node | None], wanted: Callable[[], bool]) -> None:
        """Return once all claims of a plan have their volumes. Raises ``NotBound`` if that can't be any more: the pod
        is not ``wanted``, its node is gone, the volume cannot be made there, or it takes too long."""
        uid = promise.uid
        bell = self._bells[uid] = asyncio.Event()
        for claim in promise.written:
            self._waiting.setdefault(claim, {})[uid] = None
        try:
            async with asyncio.timeout(BIND_SECONDS):
                while not self._is_bound(promise, node(), wanted()):
                    bell.clear()
                    await bell.wait()
        except TimeoutError:
            raise NotBound("context deadline exceeded") from None
        finally:
            del self._bells[uid]
            for claim in promise.written:
                pods = self._waiting[claim]
                del pods[uid]
                if not pods:
                    del self._waiting[claim]

    def _is_bound(self, promise: Promise, node: Node | None, wanted: bool) -> bool:
        """Judged by what the informers show, which others share, not by what was promised meanwhile."""
        plan = promise.plan
        if not wanted:
            raise NotBound("pod does not exist any more")
        if node is None:
            raise NotBound(f"failed to get node {quote(plan.node_name)}: not found")
        for key, version in promise.written.items():
            claim = self._claims.cache.get(key)
            if claim is None:
                raise NotBound(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
            if version:
                if is_newer(version, claim.metadata.resource_version):
                    return False  # our own write has not come back yet
                if claim.metadata.annotations.get(SELECTED_NODE) != plan.node_name:
                    # Who could not make it there takes the node back: another one may do.
                    raise NotBound(f"provisioning failed for PVC {quote(claim.metadata.name)}")
            if not is_fully_bound(claim):
                return False
            volume = self._volumes.cache.get(claim.spec.volume_name)
            if volume is None:
                return False  # it is on its way here
            if not is_reachable(volume, node.metadata.labels):
                names = f"{quote(volume.metadata.name)} node affinity doesn't match node {quote(plan.node_name)}"
                raise NotBound(f"pv {names}")
        return True


def _problem(claim: PersistentVolumeClaim | None, name: str, *, ephemeral: bool, wish: Wish) -> str:
    """What is wrong with a claim on every node (``podHasPVCs``)."""
    if claim is None:
        if ephemeral:
            return f"waiting for ephemeral volume controller to create the persistentvolumeclaim {quote(name)}"
        return f"persistentvolumeclaim {quote(name)} not found"
    if claim.status.phase == "Lost":
        volume = quote(claim.spec.volume_name)
        return f"persistentvolumeclaim {quote(name)} bound to non-existent persistentvolume {volume}"
    if claim.metadata.deletion_timestamp is not None:
        return f"persistentvolumeclaim {quote(name)} is being deleted"
    if ephemeral and not is_made_for(claim, wish.pod):
        meta = wish.pod.metadata
        return f"PVC {meta.namespace}/{name} was not created for pod {meta.namespace}/{meta.name} (pod is not owner)"
    return ""
