"""The graph as Graphviz text, for ``/debug/controllers/garbage-collector-controller/graph``: pure.

Objects without owners and dependents are omitted, as upstream does (dump.go, v1.36).
"""

from collections.abc import Iterable, Sequence

from pilothouse.controllers.cleanup.garbage_collector.graph import Graph, Node, claimed_identity

CONTENT_TYPE = "text/vnd.graphviz"


def to_dot(graph: Graph, uids: Sequence[str] = ()) -> str:
    nodes = _connected(graph, uids) if uids else graph.nodes()
    connected = [node for node in nodes if node.owners or node.dependents]
    numbers = {node.uid: number for number, node in enumerate(connected)}
    vertices = [_vertex(numbers[node.uid], node) for node in connected]
    edges = []
    for node in connected:
        for reference in node.owners:
            if reference.uid not in numbers:
                owner = Node(claimed_identity(reference, ""))
                numbers[reference.uid] = len(numbers)
                vertices.append(_vertex(numbers[reference.uid], owner, missing=True))
            edges.append(f"  {numbers[node.uid]} -> {numbers[reference.uid]};")
    return "\n".join(
        ["strict digraph full {", "  // Node definitions.", *vertices, "  // Edge definitions.", *edges, "}"]
    )


def _connected(graph: Graph, uids: Iterable[str]) -> list[Node]:
    pending = list(dict.fromkeys(uids))
    nodes: dict[str, Node] = {}
    while pending:
        node = graph.get(pending.pop(0))
        if node is None or node.uid in nodes:
            continue
        nodes[node.uid] = node
        pending += [reference.uid for reference in node.owners if reference.uid not in nodes]
        pending += [dependent.uid for dependent in node.dependent_nodes() if dependent.uid not in nodes]
    return list(nodes.values())


def _vertex(number: int, node: Node, *, missing: bool = False) -> str:
    group, _, version = node.api_version.rpartition("/")
    kind = ".".join(part for part in (node.kind, version, group) if part)
    states = {
        "beingDeleted": node.being_deleted,
        "deletingDependents": node.deleting_dependents,
        "virtual": node.virtual,
        "missingFromGraph": missing,
    }
    label = f"uid={node.uid}\nnamespace={node.namespace}\n{kind}/{node.name}\n"
    true_states = ",".join(name for name, holds in states.items() if holds)
    if true_states:
        label += true_states + "\n"
    attributes = {
        "label": label,
        "group": group,
        "version": version,
        "kind": node.kind,
        "namespace": node.namespace,
        "name": node.name,
        "uid": node.uid,
        "missing": str(missing).lower(),
        "beingDeleted": str(node.being_deleted).lower(),
        "deletingDependents": str(node.deleting_dependents).lower(),
        "virtual": str(node.virtual).lower(),
    }
    lines = [f"    {name}={_quoted(value)}" for name, value in attributes.items()]
    return "\n".join([f"  {number} [", *lines, "  ];"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
