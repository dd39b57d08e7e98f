"""The ownership graph: its input are informer events, its output are instructions to process nodes. No requests, no
waiting, no clock.

A node is one object, identified by uid. The graph also has *virtual* nodes: owners in references that no informer has
reported. A virtual node has the coordinates of its first dependent's reference, in that dependent's namespace, until a
live read or an informer corrects them. Together with checking the coordinates of every reference separately, this
prevents a wrong reference from harming dependents with correct ones (kubernetes#65200, kubernetes#92743).

Dependents keep the order in which they were added; no call costs more than the node's own references and, where all of
them must be processed again, its dependents.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from pilothouse.api.meta import ObjectMeta, OwnerReference

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The coordinates of an object. ``namespace`` is empty for cluster-scoped objects."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """Upstream's form, which is part of an event message (graph.go, v1.36)."""
        return f"[{self.api_version}/{self.kind}, namespace: {self.namespace}, name: {self.name}, uid: {self.uid}]"

    def marshal_log(self) -> dict[str, str]:
        """Its form in JSON logs (``MarshalLog``, graph.go, v1.36)."""
        return {"name": self.name, "namespace": self.namespace, "apiVersion": self.api_version, "uid": self.uid}


def claimed_identity(reference: OwnerReference, namespace: str) -> Identity:
    """The coordinates of the owner, from a reference in an object of that namespace."""
    return Identity(reference.api_version, reference.kind, namespace, reference.name, reference.uid)


class Node:
    """One object of the cluster, or (``virtual``) the owner that some object claims to have.

    There is one per object, so it has slots, and its strings are those of the object in the informer's cache. Nodes are
    compared by identity: a node with wrong coordinates is *replaced*, so that work queued for the old one is recognized
    as outdated.
    """

    __slots__ = (
        "api_version",
        "being_deleted",
        "deleting_dependents",
        "dependents",
        "kind",
        "name",
        "namespace",
        "owners",
        "uid",
        "virtual",
    )

    def __init__(self, identity: Identity, owners: tuple[OwnerReference, ...] = (), *, virtual: bool = False) -> None:
        self.api_version = identity.api_version
        self.kind = identity.kind
        self.namespace = identity.namespace
        self.name = identity.name
        self.uid = identity.uid
        self.owners = owners
        self.dependents: dict[Node, None] | None = None  # Most objects own nothing: no dict until the first.
        self.being_deleted = False
        self.deleting_dependents = False  # being deleted, and with the foreground finalizer
        self.virtual = virtual

    def __repr__(self) -> str:
        return f"Node({self.identity}{', virtual' if self.virtual else ''})"

    def __str__(self) -> str:
        """Its form in upstream's logs, where it is the key of a queue."""
        return str(self.identity)

    @property
    def identity(self) -> Identity:
        return Identity(self.api_version, self.kind, self.namespace, self.name, self.uid)

    def dependent_nodes(self) -> list["Node"]:
        """Its dependents, in the order in which they were added."""
        return list(self.dependents) if self.dependents else []

    def blocking_dependents(self) -> list["Node"]:
        """The dependents whose reference to this node has ``blockOwnerDeletion``.

        A cluster-scoped object cannot be owned by a namespaced one. It is never collected because of such a reference,
        so it must not be waited for either.
        """
        return [
            dependent
            for dependent in self.dependents or ()
            if any(ref.uid == self.uid and ref.block_owner_deletion for ref in dependent.owners)
            and (dependent.namespace or not self.namespace)
        ]

    def _add_dependent(self, node: "Node") -> None:
        if self.dependents is None:
            self.dependents = {}
        self.dependents[node] = None

    def _remove_dependent(self, node: "Node") -> None:
        if self.dependents is not None and self.dependents.pop(node, node) is None and not self.dependents:
            self.dependents = None

    def _replacement(self, identity: Identity) -> "Node":
        copy = Node(identity, self.owners, virtual=self.virtual)
        copy.dependents = dict(self.dependents) if self.dependents else None
        copy.being_deleted = self.being_deleted
        copy.deleting_dependents = self.deleting_dependents
        return copy


class AttemptToDelete(msgspec.Struct, frozen=True):
    """Attempt to delete the object of this node. ``rate_limited``: with backoff."""

    node: Node
    rate_limited: bool = False


class AttemptToOrphan(msgspec.Struct, frozen=True):
    """Remove the references to this node from its dependents, then its finalizer."""

    node: Node


class CacheAbsentOwner(msgspec.Struct, frozen=True):
    """No object with this identity exists, and none ever will, because uids are not reused."""

    owner: Identity


class ReportInvalidNamespace(msgspec.Struct, frozen=True):
    """Record an event for the dependent: its owner is in another namespace, which is invalid."""

    dependent: Identity
    reference: OwnerReference

    @property
    def message(self) -> str:
        namespace = self.dependent.namespace
        claimed = claimed_identity(self.reference, namespace)
        return f'ownerRef {claimed} does not exist in namespace "{namespace}"'


Instruction: TypeAlias = AttemptToDelete | AttemptToOrphan | CacheAbsentOwner | ReportInvalidNamespace
Instructions: TypeAlias = Sequence[Instruction]

NOTHING: Instructions = ()


class Graph:
    """All nodes by uid, and the rules by which they change (graph_builder.go, v1.36)."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def nodes(self) -> Iterable[Node]:
        return self._nodes.values()

    def process_add_or_update(
        self, api_version: str, kind: str, old: ObjectMeta | None, new: ObjectMeta
    ) -> Instructions:
        """An informer added an object (``old`` is None) or updated it."""
        node = self._nodes.get(new.uid)
        if node is None:
            return self._insert_node(api_version, kind, old, new)
        if (
            not node.virtual
            and new.deletion_timestamp is None
            and node.owners == new.owner_references
            and node.kind == kind
            and node.api_version == api_version
        ):
            # Most updates end here: nothing relevant changed. Use the strings of the new object, otherwise the old ones
            # would stay in memory.
            node.name, node.namespace, node.owners = new.name, new.namespace, new.owner_references
            return NOTHING
        instructions: list[Instruction] = []
        if node.virtual:
            node = self._mark_observed(
                node, Identity(api_version, kind, new.namespace, new.name, new.uid), instructions
            )
        elif node.kind != kind or node.api_version != api_version:
            node = self._replace_identity(node, api_version, kind)
        self._set_owners(node, new.owner_references, instructions)
        if new.deletion_timestamp is not None:
            node.being_deleted = True  # Never reset.
        _process_transitions(node, old, new, instructions)
        return instructions

    def process_delete(self, api_version: str, kind: str, meta: ObjectMeta) -> Instructions:
        """An informer reported the deletion of the object."""
        node = self._nodes.get(meta.uid)
        if node is None:
            return NOTHING
        instructions: list[Instruction] = []
        identity = Identity(api_version, kind, meta.namespace, meta.name, meta.uid)
        if node.virtual:
            # First observed when it is deleted: dependents that claim other coordinates are processed all the same.
            node = self._mark_observed(node, identity, instructions)
        self._remove_node(node, identity, instructions)
        return instructions

    def mark_unobserved(self, api_version: str, kind: str, uid: str) -> Instructions:
        """The informer that replaced the one with this object does not have it: a live read decides whether it exists,
        under the version that is watched now."""
        node = self._nodes.get(uid)
        if node is None or node.virtual:
            return NOTHING
        node = self._replace_identity(node, api_version, kind)
        node.virtual = True
        node.being_deleted = node.deleting_dependents = False  # If it exists, the informer's event sets them again.
        return [AttemptToDelete(node)]

    def process_virtual_delete_event(self, identity: Identity) -> Instructions:
        """A live read found nothing at ``identity``, or an object with another uid."""
        node = self._nodes.get(identity.uid)
        if node is None:
            return NOTHING
        instructions: list[Instruction] = []
        if not node.virtual:
            if node.identity == identity:
                self._remove_node(node, identity, instructions)
            else:
                # The informer has the object under other coordinates, which are correct. Only references to those that
                # were read are wrong.
                _enqueue_dependents_of_absent_owner(
                    partition_dependents(node.dependents or (), identity)[0], identity, instructions
                )
            return instructions
        matching, mismatching = partition_dependents(node.dependents or (), identity)
        if not mismatching:
            self._remove_node(node, identity, instructions)
            return instructions
        _enqueue_dependents_of_absent_owner(matching, identity, instructions)
        if node.identity == identity:
            alternative = get_alternate_owner_identity(mismatching, identity)
            if alternative is not None:
                replacement = node._replacement(alternative)
                self._nodes[node.uid] = replacement
                instructions.append(AttemptToDelete(replacement, rate_limited=True))
        return instructions

    def is_in_cycle(self, node: Node) -> bool:
        """Whether the node waits for itself: it blocks an owner in foreground deletion, which blocks another one, …,
        which blocks the node.

        Walks from owner to owner, so the number of dependents does not matter.
        """
        pending = [node]
        blocking_owners: dict[str, None] = {}
        while pending:
            for reference in pending.pop().owners:
                owner = self._nodes.get(reference.uid)
                if owner is None or not owner.deleting_dependents or not reference.block_owner_deletion:
                    continue
                if owner is node:
                    return True
                if owner.uid not in blocking_owners:
                    blocking_owners[owner.uid] = None
                    pending.append(owner)
        return False

    def _insert_node(self, api_version: str, kind: str, old: ObjectMeta | None, new: ObjectMeta) -> Instructions:
        node = Node(Identity(api_version, kind, new.namespace, new.name, new.uid), new.owner_references)
        self._nodes[new.uid] = node
        if not new.owner_references and new.deletion_timestamp is None:
            return NOTHING
        instructions: list[Instruction] = []
        if new.deletion_timestamp is not None:
            node.being_deleted = True
            node.deleting_dependents = FOREGROUND_FINALIZER in new.finalizers
        self._add_dependent_to_owners(node, new.owner_references, instructions)
        _process_transitions(node, old, new, instructions)
        return instructions

    def _mark_observed(self, node: Node, identity: Identity, instructions: list[Instruction]) -> Node:
        """A virtual node turns out to exist. Dependents whose reference claims another identity are processed again."""
        if node.identity != identity:
            for dependent in partition_dependents(node.dependents or (), identity)[1]:
                if identity.namespace and dependent.namespace != identity.namespace:
                    _report_invalid_namespace_owner_ref(dependent, identity.uid, instructions)
                instructions.append(AttemptToDelete(dependent))
            node = node._replacement(identity)
            self._nodes[node.uid] = node
        node.virtual = False
        return node

    def _replace_identity(self, node: Node, api_version: str, kind: str) -> Node:
        """The same object, now served as another version or kind."""
        renamed = node._replacement(Identity(api_version, kind, node.namespace, node.name, node.uid))
        self._nodes[node.uid] = renamed
        for reference in renamed.owners:
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.dependents and node in owner.dependents:
                owner._remove_dependent(node)
                owner._add_dependent(renamed)
        return renamed

    def _set_owners(self, node: Node, references: tuple[OwnerReference, ...], instructions: list[Instruction]) -> None:
        if node.owners == references:
            node.owners = references
            return
        old = {reference.uid: reference for reference in node.owners}
        # A reference with the same uid but other coordinates counts as new. Upstream processes it only after a restart.
        added = [
            reference
            for reference in references
            if reference.uid not in old or _coordinates(reference) != _coordinates(old[reference.uid])
        ]
        new = {reference.uid: reference for reference in references}
        removed = [reference for uid, reference in old.items() if uid not in new]
        # An owner that waits for its dependents may have waited for exactly this.
        unblocked = [reference.uid for reference in removed if reference.block_owner_deletion]
        unblocked += [
            uid
            for uid, reference in new.items()
            if uid in old and old[uid].block_owner_deletion and not reference.block_owner_deletion
        ]
        for uid in unblocked:
            owner = self._nodes.get(uid)
            if owner is not None:
                instructions.append(AttemptToDelete(owner))
        node.owners = references
        self._add_dependent_to_owners(node, added, instructions)
        self._remove_dependent_from_owners(node, removed)
        if removed and references and not node.namespace:
            # It may have been kept because of a namespaced owner, whose reference was removed.
            instructions.append(AttemptToDelete(node))

    def _add_dependent_to_owners(
        self, node: Node, references: Iterable[OwnerReference], instructions: list[Instruction]
    ) -> None:
        is_potentially_invalid = False
        for reference in references:
            owner = self._nodes.get(reference.uid)
            if owner is None:
                owner = Node(claimed_identity(reference, node.namespace), virtual=True)
                self._nodes[reference.uid] = owner
                owner._add_dependent(node)
                instructions.append(AttemptToDelete(owner))
                continue
            owner._add_dependent(node)
            if is_potentially_invalid:
                continue  # One such reference is enough; upstream does not report a second one, either.
            if owner.namespace and owner.namespace != node.namespace:
                if not owner.virtual:
                    _report_invalid_namespace_owner_ref(node, owner.uid, instructions)
                is_potentially_invalid = True
            elif not _owner_reference_matches_coordinates(reference, owner.api_version, owner.kind, owner.name):
                is_potentially_invalid = True
            elif not owner.namespace and node.namespace and owner.virtual:
                # A cluster-scoped dependent claims that it is cluster-scoped, and no informer has it: it may as well be
                # a missing namespaced object (kubernetes#98040).
                is_potentially_invalid = True
        if is_potentially_invalid:
            instructions.append(AttemptToDelete(node))

    def _remove_dependent_from_owners(self, node: Node, references: Iterable[OwnerReference]) -> None:
        for reference in references:
            owner = self._nodes.get(reference.uid)
            if owner is not None:
                owner._remove_dependent(node)

    def _remove_node(self, node: Node, identity: Identity, instructions: list[Instruction]) -> None:
        del self._nodes[node.uid]
        self._remove_dependent_from_owners(node, node.owners)
        if node.dependents:
            _enqueue_dependents_of_absent_owner(node.dependents, identity, instructions)
        for reference in node.owners:
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.deleting_dependents:
                instructions.append(AttemptToDelete(owner))  # This may have been the last dependent that it waited for.


def _coordinates(reference: OwnerReference) -> tuple[str, str, str]:
    return reference.api_version, reference.kind, reference.name


def partition_dependents(dependents: Iterable[Node], owner: Identity) -> tuple[list[Node], list[Node]]:
    """The dependents that refer to exactly ``owner``, and those that refer to its uid with other coordinates.

    A dependent with several references to the uid can be in both lists. A dependent in another namespace than that of a
    namespaced owner never matches.
    """
    matching: list[Node] = []
    mismatching: list[Node] = []
    for dependent in dependents:
        if owner.namespace and dependent.namespace != owner.namespace:
            mismatching.append(dependent)
            continue
        matches = [
            _owner_reference_matches_coordinates(reference, owner.api_version, owner.kind, owner.name)
            for reference in dependent.owners
            if reference.uid == owner.uid
        ]
        if True in matches:
            matching.append(dependent)
        if False in matches:
            mismatching.append(dependent)
    return matching, mismatching


def get_alternate_owner_identity(dependents: Iterable[Node], absent: Identity) -> Identity | None:
    """Another identity by which ``dependents`` refer to the owner that does not exist at ``absent``.

    The next one after ``absent``, ordered by kind, apiVersion, namespace and name, cyclically. So every identity is
    tried, however often lookups fail.
    """
    claims: dict[Identity, None] = {}
    for dependent in dependents:
        for ref in dependent.owners:
            if ref.uid != absent.uid:
                continue
            matches = _owner_reference_matches_coordinates(ref, absent.api_version, absent.kind, absent.name)
            if matches and (not absent.namespace or absent.namespace == dependent.namespace):
                continue
            # A kind that was read without a namespace is cluster-scoped, so the dependent's namespace does not matter.
            cluster_scoped = not absent.namespace and (ref.api_version, ref.kind) == (absent.api_version, absent.kind)
            namespace = "" if cluster_scoped else dependent.namespace
            claims[Identity(ref.api_version, ref.kind, namespace, ref.name, ref.uid)] = None
    claims.pop(absent, None)
    ordered = sorted(claims, key=_sort_key)
    following = [claim for claim in ordered if _sort_key(claim) > _sort_key(absent)]
    return next(iter(following or ordered), None)


def _sort_key(identity: Identity) -> tuple[str, str, str, str, str]:
    return (identity.kind, identity.api_version, identity.namespace, identity.name, identity.uid)


def _owner_reference_matches_coordinates(reference: OwnerReference, api_version: str, kind: str, name: str) -> bool:
    return reference.name == name and reference.kind == kind and reference.api_version == api_version


def _enqueue_dependents_of_absent_owner(
    dependents: Iterable[Node], owner: Identity, instructions: list[Instruction]
) -> None:
    absent_owner_dependents = list(dependents)
    if absent_owner_dependents:
        instructions.append(CacheAbsentOwner(owner))
        instructions.extend(AttemptToDelete(dependent) for dependent in absent_owner_dependents)


def _report_invalid_namespace_owner_ref(dependent: Node, owner_uid: str, instructions: list[Instruction]) -> None:
    for reference in dependent.owners:
        if reference.uid == owner_uid:
            instructions.append(ReportInvalidNamespace(dependent.identity, reference))
            return


def _deletion_starts_with_finalizer(old: ObjectMeta | None, new: ObjectMeta, finalizer: str) -> bool:
    if new.deletion_timestamp is None or finalizer not in new.finalizers:
        return False
    return old is None or old.deletion_timestamp is None or finalizer not in old.finalizers


def _process_transitions(node: Node, old: ObjectMeta | None, new: ObjectMeta, instructions: list[Instruction]) -> None:
    """The actions at the start of a deletion. Orphaning takes precedence: the dependents must not be deleted first."""
    if _deletion_starts_with_finalizer(old, new, ORPHAN_FINALIZER):
        instructions.append(AttemptToOrphan(node))
    elif _deletion_starts_with_finalizer(old, new, FOREGROUND_FINALIZER):
        node.deleting_dependents = True
        instructions.extend(AttemptToDelete(dependent) for dependent in node.dependent_nodes())
        instructions.append(AttemptToDelete(node))
