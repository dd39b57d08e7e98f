"""Graph events and resulting instructions in a compact text form."""

import datetime

from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.cleanup.garbage_collector.graph import (
    AttemptToDelete,
    AttemptToOrphan,
    CacheAbsentOwner,
    Graph,
    Identity,
    Instructions,
    Node,
    ReportInvalidNamespace,
)

THEN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def identity(text: str) -> Identity:
    """``v1/Pod ns1/web=uid-1``; cluster-scoped: ``v1/Node /n1=uid-2``."""
    kind_part, _, rest = text.partition(" ")
    api_version, _, kind = kind_part.rpartition("/")
    place, _, uid = rest.partition("=")
    namespace, _, name = place.partition("/")
    return Identity(api_version, kind, namespace, name, uid)


def reference(owner: Identity, *, blocking: bool = False) -> OwnerReference:
    return OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.uid,
        block_owner_deletion=blocking,
    )


def meta(
    who: Identity, *owners: Identity | OwnerReference, deleting: bool = False, finalizers: tuple[str, ...] = ()
) -> ObjectMeta:
    return ObjectMeta(
        name=who.name,
        namespace=who.namespace,
        uid=who.uid,
        owner_references=tuple(reference(o) if isinstance(o, Identity) else o for o in owners),
        deletion_timestamp=THEN if deleting else None,
        finalizers=finalizers,
    )


class History:
    """A graph, and the instructions that result from each event."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.seen: dict[str, ObjectMeta] = {}

    def show(
        self,
        who: Identity,
        *owners: Identity | OwnerReference,
        deleting: bool = False,
        finalizers: tuple[str, ...] = (),
    ) -> list[str]:
        """An informer shows ``who``, or its change."""
        new = meta(who, *owners, deleting=deleting, finalizers=finalizers)
        out = self.graph.process_add_or_update(who.api_version, who.kind, self.seen.get(who.uid), new)
        self.seen[who.uid] = new
        return self._texts(out)

    def gone(self, who: Identity) -> list[str]:
        """An informer saw ``who`` go."""
        last = self.seen.pop(who.uid, meta(who))
        return self._texts(self.graph.process_delete(who.api_version, who.kind, last))

    def disproved(self, who: Identity) -> list[str]:
        """A lookup did not find ``who``."""
        return self._texts(self.graph.process_virtual_delete_event(who))

    def nodes(self) -> list[str]:
        return sorted(describe(node) for node in self.graph.nodes())

    def _texts(self, instructions: Instructions) -> list[str]:
        check_invariants(self.graph)
        texts = []
        for instruction in instructions:
            match instruction:
                case AttemptToDelete(node, rate_limited):
                    texts.append(f"{'later ' if rate_limited else ''}delete? {describe(node)}")
                case AttemptToOrphan(node):
                    texts.append(f"orphan {describe(node)}")
                case CacheAbsentOwner(owner):
                    texts.append(f"absent {place(owner)}")
                case ReportInvalidNamespace() as report:
                    texts.append(f"{report.dependent.name}: {report.message}")
        return texts


def place(who: Identity) -> str:
    return f"{who.api_version}/{who.kind} {who.namespace}/{who.name}"


def describe(node: Node) -> str:
    return f"{'virtual ' if node.virtual else ''}{place(node.identity)}"


def check_invariants(graph: Graph) -> None:
    """verifyGraphInvariants of garbagecollector_test.go: both directions of every edge are in the graph, once."""
    for node in graph.nodes():
        assert graph.get(node.uid) is node
        for ref in node.owners:
            owner = graph.get(ref.uid)
            # An owner that is gone, or that was not found where some claim it to be, leaves their references dangling
            # until they have been looked at.
            if owner is not None and (owner.kind, owner.api_version, owner.name) == (
                ref.kind,
                ref.api_version,
                ref.name,
            ):
                assert node in owner.dependent_nodes(), f"{node} is not a dependent of {owner}"
        for dependent in node.dependent_nodes():
            assert graph.get(dependent.uid) is dependent, f"{dependent} is a dependent, but not in the graph"
            assert any(ref.uid == node.uid for ref in dependent.owners), f"{dependent} does not own up to {node}"
