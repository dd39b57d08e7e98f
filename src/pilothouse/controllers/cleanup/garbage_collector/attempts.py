"""Processes one node of the graph: read live, decide, act, update the graph. Keys are uids, so that a node whose
identity was corrected after it was queued is processed once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.cleanup.garbage_collector import patches
from pilothouse.controllers.cleanup.garbage_collector.decide import (
    Delete,
    Keep,
    Observed,
    OwnerState,
    RemoveForegroundFinalizer,
    RemoveOwners,
    SyncDependents,
    classify_reference,
    decide,
    decide_foreground,
)
from pilothouse.controllers.cleanup.garbage_collector.graph import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    AttemptToDelete,
    Graph,
    Identity,
    Instructions,
    Node,
    claimed_identity,
)
from pilothouse.controllers.cleanup.garbage_collector.live import Live, Located, UnknownKind, UnservedKind
from pilothouse.env import Log
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.controller import RetryLater

CAPACITY = 500


class AbsentOwnerCache:
    """The last ``capacity`` owners that do not exist, so that a thousand orphans of one owner cost one live read
    (upstream's ``absentOwnerCache``).

    An entry is never wrong, since uids are not reused. Forgetting one costs a read.
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
        self._identities[identity] = None
        self._identities.move_to_end(identity)
        if len(self._identities) > self._capacity:
            self._identities.popitem(last=False)


MAX_CONCURRENT_ORPHANS = 100
"""Maximum number of dependents of one owner that are patched concurrently."""


class _NamespacedOwner(Exception):
    """A cluster-scoped object names a namespaced owner, whose namespace is unknown."""


class ItemProcessor:
    """``apply`` is called with the instructions that result from a live read; ``cached`` returns the informer's
    object."""

    def __init__(
        self,
        graph: Graph,
        absent: AbsentOwnerCache,
        live: Live,
        *,
        apply: Callable[[Instructions], None],
        cached: Callable[[Identity], Cached | None],
        log: Log,
    ) -> None:
        self._graph = graph
        self._absent = absent
        self._live = live
        self._apply = apply
        self._cached = cached
        self._log = log

    async def attempt_to_delete_item(self, node: Node) -> None:
        """Process one node: delete its object if it has no owner left, update its references, or continue its orphaning
        or foreground deletion.

        Raises ``RetryLater`` while no informer has observed the object of a virtual node: an object that was created
        and deleted while a watch was down would otherwise stay in the graph forever (kubernetes#56121). Raises
        ``UnservedKind`` if discovery does not have its kind or that of an owner.
        """
        self._log.info("Processing item", v=2, item=node.identity, virtual=node.virtual)
        if node.being_deleted and not node.deleting_dependents:
            return  # Its dependents are processed after its deletion.
        try:
            located = self._locate(node)
            latest = await self._live.get(located)
            if latest is None or latest.uid != node.uid:
                self._process_virtual_delete_event(node.identity)
                return
            if node.deleting_dependents:
                await self._process_deleting_dependents_item(node, located, latest)
            else:
                await self._delete_or_remove_owner_references(node, located, latest)
        except _NamespacedOwner:
            return
        except UnservedKind:
            raise
        except UnknownKind as error:
            # After the deletion of a definition each of its objects fails, again and again (upstream: all at level 5).
            write = self._log.warning if self._live.is_first_report(error) else partial(self._log.info, v=5)
            write("Cannot look up the kind of an object or of its owner", item=node.identity, err=error)
            raise RetryLater(str(error)) from error
        current = self._graph.get(node.uid)
        if current is not None and current.virtual:
            raise RetryLater("no informer has observed the object yet")

    async def attempt_to_orphan(self, owner: Node) -> None:
        """Remove the references to the owner from its dependents, then its orphan finalizer.

        If one of them fails, all are retried. Raises ``UnservedKind`` as ``attempt_to_delete_item`` does.
        """
        try:
            located = self._locate(owner)
            dependents = owner.dependent_nodes()
            for start in range(0, len(dependents), MAX_CONCURRENT_ORPHANS):
                batch = dependents[start : start + MAX_CONCURRENT_ORPHANS]
                results = await asyncio.gather(
                    *(self._orphan_dependent(dependent, owner.uid) for dependent in batch), return_exceptions=True
                )
                for failure in results:
                    if failure is not None:
                        raise failure
            record_decision(f"{_describe(owner)} has no dependents any more, {len(dependents)} were orphaned")
            await self._live.remove_finalizer(located, owner.uid, ORPHAN_FINALIZER)
        except _NamespacedOwner:
            return
        except UnservedKind:
            raise
        except UnknownKind as error:
            raise RetryLater(str(error)) from error

    async def _orphan_dependent(self, dependent: Node, owner_uid: str) -> None:
        owner = self._graph.get(owner_uid)
        described = owner_uid if owner is None else _describe(owner)
        record_decision(
            f"{described} is being deleted and orphans its dependents: {_describe(dependent)} loses its reference to it"
        )
        await self._remove_owners(dependent, self._locate(dependent), (owner_uid,))

    def _locate(self, node: Node) -> Located:
        kind = self._live.kind_of(node.api_version, node.kind)
        if kind.namespaced and not node.namespace:
            # Only a virtual node can be like this: a cluster-scoped object claims a namespaced owner.
            raise _NamespacedOwner
        return Located(kind, node.namespace if kind.namespaced else "", node.name)

    def _process_virtual_delete_event(self, identity: Identity) -> None:
        instructions = self._graph.process_virtual_delete_event(identity)
        rate_limited = [i for i in instructions if isinstance(i, AttemptToDelete) and i.rate_limited]
        self._apply([i for i in instructions if i not in rate_limited])
        if rate_limited:
            # This key is being processed. The claimed identities are tried one after the other, with growing backoff.
            raise RetryLater("the owner may have other coordinates")

    async def _process_deleting_dependents_item(self, owner: Node, located: Located, latest: ObjectMeta) -> None:
        match decide_foreground(owner, is_in_cycle=self._graph.is_in_cycle(owner)):
            case RemoveForegroundFinalizer():
                self._log.info("Removing the foreground finalizer", v=2, item=owner.identity)
                record_decision(
                    f"{_describe(owner)} is being deleted in the foreground, and no dependent blocks it any more: its "
                    f"finalizer {FOREGROUND_FINALIZER} is removed"
                )
                await self._live.remove_finalizer(located, owner.uid, FOREGROUND_FINALIZER)
            case SyncDependents(nodes, unblock):
                self._apply([AttemptToDelete(node) for node in nodes])
                if unblock:
                    await self._unblock_owner_references(owner, located, latest)

    async def _unblock_owner_references(self, node: Node, located: Located, latest: ObjectMeta) -> None:
        # Use the live references, not those of the graph: otherwise one that was removed in the meantime would be added
        # again.
        if any(reference.block_owner_deletion for reference in latest.owner_references):
            self._log.info("Unblocking the owners, to break a cycle", v=2, item=node.identity)
            record_decision(f"{_describe(node)} stops blocking its owners: they may wait for each other in a cycle")
            body = patches.unblock_owner_references_strategic_merge_patch(node.uid, latest.owner_references)
            await self._live.patch(
                located, body, patches.unblock_owner_references_json_merge_patch, self._cached(node.identity)
            )

    async def _delete_or_remove_owner_references(self, node: Node, located: Located, latest: ObjectMeta) -> None:
        owners = [(ref, await self._classify_reference(node, ref)) for ref in latest.owner_references]
        # During the live reads the graph may have got more dependents, or the node may have been replaced.
        node = self._graph.get(node.uid) or node
        decision = decide(
            Observed(
                finalizers=latest.finalizers,
                owners=tuple(owners),
                has_dependents=bool(node.dependents),
                dependent_waits=any(dependent.deleting_dependents for dependent in node.dependents or ()),
            )
        )
        match decision:
            case Keep():
                return
            case RemoveOwners(uids):
                self._log.info("Removing references to owners that are gone", v=2, item=node.identity, owners=uids)
                record_decision(
                    f"{_describe(node)} loses references to {_describe_owners(owners, uids)}; it keeps its other owners"
                )
                await self._remove_owners(node, located, uids)
            case Delete(policy, unblock):
                if unblock:
                    await self._unblock_owner_references(node, located, latest)
                self._log.info("Deleting item", v=2, item=node.identity, propagationPolicy=policy)
                record_decision(f"deleting {_describe(node)}, {policy}: {_describe_owners(owners)}")
                if not await self._live.delete(located, latest, policy):
                    self._process_virtual_delete_event(node.identity)

    async def _remove_owners(self, node: Node, located: Located, uids: tuple[str, ...]) -> None:
        body = patches.delete_owner_refs_strategic_merge_patch(node.uid, uids)
        await self._live.patch(
            located,
            body,
            lambda meta: patches.delete_owner_refs_json_merge_patch(meta, uids),
            self._cached(node.identity),
        )

    async def _classify_reference(self, node: Node, reference: OwnerReference) -> OwnerState:
        in_cluster = claimed_identity(reference, "")
        in_namespace = claimed_identity(reference, node.namespace)
        if in_cluster in self._absent or in_namespace in self._absent:
            return OwnerState.DANGLING
        kind = self._live.kind_of(reference.api_version, reference.kind)
        if kind.namespaced and not node.namespace:
            self._log.info("A cluster-scoped item refers to a namespaced owner", v=2, item=node.identity)
            raise _NamespacedOwner
        namespace = node.namespace if kind.namespaced else ""
        state = classify_reference(await self._live.get(Located(kind, namespace, reference.name)), reference)
        if state is OwnerState.DANGLING:
            self._absent.add(in_namespace if kind.namespaced else in_cluster)
        return state


def _describe(node: Node) -> str:
    return f"{node.kind} {node.namespace}/{node.name}" if node.namespace else f"{node.kind} {node.name}"


_OWNER_STATE = {
    OwnerState.SOLID: "exists",
    OwnerState.DANGLING: "does not exist",
    OwnerState.WAITING: "is being deleted in the foreground and waits for its dependents",
}


def _describe_owners(owners: list[tuple[OwnerReference, OwnerState]], uids: tuple[str, ...] | None = None) -> str:
    """``its owner ReplicaSet web-1 (uid …) does not exist``; of those with these uids only."""
    return "; ".join(
        f"its owner {reference.kind} {reference.name} (uid {reference.uid}) {_OWNER_STATE[state]}"
        for reference, state in owners
        if uids is None or reference.uid in uids
    )
