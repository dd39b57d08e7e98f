"""Panels of nodes: a strip for each node, or the number of nodes in each state. Pure."""

from collections.abc import Sequence

from pilothouse.simulate.recording import Node, Recording
from pilothouse.simulate.recording.nodes import STATES
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.curves import Scale, stacked_paths
from pilothouse.simulate.report.markup import Markup, element
from pilothouse.simulate.report.panel import (
    Key,
    Panel,
    frame_part,
    label_part,
    legend_parts,
    name_part,
    scale_parts,
    value_part,
)
from pilothouse.simulate.report.texts import count_text

MAX_STRIPS = 24
_STRIP = 12
_BANDS = 96
_REGISTERED = 2
"""State changes of a node that registers and becomes ready."""


def state_class(state: str) -> str:
    """The CSS class of a node state."""
    return f"node-{state.replace(' ', '-')}"


def node_panels(recording: Recording, axis: Axis) -> list[Panel]:
    """A strip for each of a few nodes; otherwise the counts, with strips for nodes that changed. A single line if no
    node changed."""
    states = recording.node_states
    if not states:
        return []
    count = len(recording.nodes)
    total = max(count, sum(steps.last[-1] for state, steps in states.items() if steps.last and state != "gone"))
    if len(states) == 1 and total == count and all(len(node.at) == 1 for node in recording.nodes):
        return [_steady_panel(recording.nodes[0], total, axis)]
    few = total == count <= MAX_STRIPS
    nodes_shown = recording.nodes if few else [node for node in recording.nodes if len(node.at) > _REGISTERED]
    panels = [] if few else [_counts_panel(recording, axis)]
    if nodes_shown:
        panels.append(_strips_panel(nodes_shown[:MAX_STRIPS], axis, more=len(nodes_shown) - MAX_STRIPS, has_name=few))
    return panels


def _steady_panel(first: Node, total: int, axis: Axis) -> Panel:
    state = first.states[0]
    left = axis.x(first.at[0])
    title = element("title", f"{count_text(total, 'node')}: {state} all the time")
    strip = element(
        "rect", title, x=left, y=2, width=axis.right - left, height=_STRIP, class_=f"strip {state_class(state)}"
    )
    return Panel(16, [name_part(count_text(total, "node")), strip, value_part(state, 12)], has_name=True)


def _counts_panel(recording: Recording, axis: Axis) -> Panel:
    states = [state for state in STATES if state in recording.node_states and state != "gone"]
    series = [recording.node_states[state] for state in states]
    most = max(1, sum(steps.last[-1] if steps.last else 0 for steps in series), *(steps.most for steps in series))
    scale = Scale(_BANDS, _BANDS - 8, most)
    parts = [name_part("nodes"), frame_part(axis, 4, _BANDS)]
    parts += [scale_parts(most, scale.y(most)), scale_parts(0, scale.y(0))]
    for state, path in zip(states, stacked_paths(series, axis, scale), strict=True):
        if path:
            parts.append(element("path", element("title", state), d=path, class_=f"band {state_class(state)}"))
    keys = [
        Key(f"{state}, at most {recording.node_states[state].most:,}", f"band {state_class(state)}") for state in states
    ]
    parts += legend_parts(keys, 28)
    parts.append(value_part(count_text(most, "node"), 12))
    return Panel(_BANDS, parts, has_name=True)


def _strips_panel(nodes: Sequence[Node], axis: Axis, *, more: int, has_name: bool) -> Panel:
    parts: list[Markup] = []
    zones = list(dict.fromkeys(node.zone for node in nodes))
    nodes = sorted(nodes, key=lambda node: zones.index(node.zone))  # groups may share a zone, which has one heading
    zone = None
    y = 8.0
    if has_name:
        parts.append(name_part("nodes"))
        parts += _state_keys(nodes, axis)
        y = 22.0
    for node in nodes:
        if node.zone and node.zone != zone:
            parts.append(label_part(node.zone, y + 9, class_="label strong"))
            y += 15
        zone = node.zone
        parts.append(label_part(node.name, y + 9, x=10 if node.zone else 0))
        ends = [*node.at[1:], axis.end]
        for at, end, state in zip(node.at, ends, node.states, strict=True):
            left, right = axis.x(at), axis.x(end)
            if right <= left and end <= axis.end:
                right = left + 1
            title = element("title", f"{state} from {axis.label(at)} to {axis.label(end)}")
            if right > left:
                parts.append(
                    element(
                        "rect", title, x=left, y=y, width=round(right - left, 1), height=_STRIP - 2,
                        class_=f"strip {state_class(state)}",
                    )
                )  # fmt: skip
        y += _STRIP + 3
    if more > 0:
        parts.append(label_part(f"and {count_text(more, 'more node')}", y + 9))
        y += 15
    return Panel(y, parts, has_name=has_name)


def _state_keys(nodes: Sequence[Node], axis: Axis) -> list[Markup]:
    """The legend, in a line above the strips."""
    used = {state for node in nodes for state in node.states}
    parts, x = [], axis.left
    for state in STATES:
        if state in used:
            parts.append(element("rect", x=x, y=3.5, width=13, height=9, class_=f"strip {state_class(state)}"))
            parts.append(label_part(state, 12, x=x + 18))
            x += 36 + 6.4 * len(state)
    return parts
