"""Which slice gets which endpoint. Pure. Upstream: v1.36 ``staging/src/k8s.io/endpointslice/reconciler.go``; instead of
upstream's random map order, slices are processed by name."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pilothouse.api.core import SERVICES, Service
from pilothouse.api.discovery import Endpoint, EndpointPort, EndpointSlice
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.network.endpointslice.desired import Desired, PortGroup
from pilothouse.controllers.shared.slices import MANAGED_BY, SERVICE_NAME, endpoints_equal, identity, port_key
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.semantics.services import HEADLESS_LABEL, has_cluster_ip, slice_name_prefix

MANAGER = "endpointslice-controller.k8s.io"

_RESERVED = (MANAGED_BY, SERVICE_NAME, HEADLESS_LABEL)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the slices of one address family.

    ``replacements`` reuse the names of slices that would be deleted. ``unchanged`` are passed on for hints, which may
    change them.
    """

    creates: tuple[EndpointSlice, ...] = ()
    updates: tuple[EndpointSlice, ...] = ()
    replacements: tuple[EndpointSlice, ...] = ()
    deletes: tuple[EndpointSlice, ...] = ()
    unchanged: tuple[EndpointSlice, ...] = ()
    added: int = 0
    removed: int = 0


def is_owned_by(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Whether it belongs to this Service, not to an earlier one with the same name."""
    return any(
        owner.uid == service.metadata.uid and owner.kind == "Service" and owner.api_version == "v1"
        for owner in endpoint_slice.metadata.owner_references
    )


def slice_labels(service: Service) -> dict[str, str]:
    """The service's labels, and the three reserved ones."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if not has_cluster_ip(service):
        labels[HEADLESS_LABEL] = ""
    labels[SERVICE_NAME] = service.metadata.name
    labels[MANAGED_BY] = MANAGER
    return labels


def labels_differ(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Whether the slice's labels differ from the service's, apart from the three reserved ones."""
    existing_labels = {key: value for key, value in endpoint_slice.metadata.labels.items() if key not in _RESERVED}
    return existing_labels != {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}


def new_slice(service: Service, address_type: str, ports: tuple[EndpointPort, ...]) -> EndpointSlice:
    meta = service.metadata
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=slice_name_prefix(meta.name),
            namespace=meta.namespace,
            labels=slice_labels(service),
            owner_references=(new_controller_reference(meta, SERVICES),),
        ),
        address_type=address_type,
        ports=ports,
    )


def decide(
    service: Service, existing: Sequence[EndpointSlice], desired: Desired, address_type: str, max_endpoints: int
) -> Plan:
    """The plan for one address family, before hints and ``recycle_slices``."""
    of_ports: dict[object, list[EndpointSlice]] = {}
    deletes: list[EndpointSlice] = []
    for endpoint_slice in sorted(existing, key=lambda candidate: candidate.metadata.name):
        if is_owned_by(endpoint_slice, service):
            of_ports.setdefault(port_key(endpoint_slice.ports or ()), []).append(endpoint_slice)
        else:
            deletes.append(endpoint_slice)
    creates: list[EndpointSlice] = []
    updates: list[EndpointSlice] = []
    added = removed = 0
    for key in sorted(desired.groups):
        placed = reconcile_by_port_mapping(
            service, of_ports.pop(key, []), desired.groups[key], address_type, max_endpoints
        )
        creates += placed.creates
        updates += placed.updates
        deletes += placed.deletes
        added += placed.added
        removed += placed.removed
    for slices in of_ports.values():
        deletes += slices
    if len(deletes) == len(existing) and not creates:
        placeholder = new_slice(service, address_type, ())
        if len(deletes) == 1 and _is_placeholder(deletes[0], placeholder):
            deletes = []
        else:
            creates.append(placeholder)
    changed = {endpoint_slice.metadata.name for endpoint_slice in (*updates, *deletes)}
    return Plan(
        creates=tuple(creates),
        updates=tuple(updates),
        deletes=tuple(deletes),
        unchanged=tuple(endpoint_slice for endpoint_slice in existing if endpoint_slice.metadata.name not in changed),
        added=added,
        removed=removed,
    )


def _is_placeholder(endpoint_slice: EndpointSlice, placeholder: EndpointSlice) -> bool:
    return (
        not endpoint_slice.endpoints
        and not endpoint_slice.ports
        and endpoint_slice.address_type == placeholder.address_type
        and endpoint_slice.metadata.labels == placeholder.metadata.labels
    )


def reconcile_by_port_mapping(
    service: Service, existing: Iterable[EndpointSlice], group: PortGroup, address_type: str, max_endpoints: int
) -> Plan:
    """Place the endpoints of one port list.

    Endpoints stay in their slice. New ones fill the slices that are written anyway, fullest first. The rest is added to
    the unchanged slice that it fills best, or else to new ones.
    """
    remaining = dict(group.endpoints)
    changed: dict[str, list[Endpoint]] = {}
    unchanged: dict[str, list[Endpoint]] = {}
    by_name: dict[str, EndpointSlice] = {}
    deletes: list[EndpointSlice] = []
    removed = 0
    for endpoint_slice in existing:
        name, endpoints = endpoint_slice.metadata.name, endpoint_slice.endpoints or ()
        by_name[name] = endpoint_slice
        kept_endpoints: list[Endpoint] = []
        differs = False
        for endpoint in endpoints:
            desired = remaining.pop(identity(endpoint), None)
            if desired is not None:
                kept_endpoints.append(desired)
                differs = differs or not endpoints_equal(desired, endpoint)
        deleted = len(endpoints) - len(kept_endpoints)
        removed += deleted
        if deleted and not kept_endpoints:
            deletes.append(endpoint_slice)
        elif deleted or differs:
            changed[name] = kept_endpoints
        elif labels_differ(endpoint_slice, service):
            changed[name] = list(endpoints)
        else:
            unchanged[name] = list(endpoints)
    added = len(remaining)
    unplaced = list(remaining.values())
    for open_list in sorted(changed.values(), key=len, reverse=True):
        unplaced = _fill_slice(open_list, unplaced, max_endpoints)
    creates: list[EndpointSlice] = []
    while unplaced:
        name = _get_slice_to_fill(unchanged, len(unplaced), max_endpoints) if len(unplaced) < max_endpoints else ""
        filled: list[Endpoint] = unchanged.pop(name) if name else []
        unplaced = _fill_slice(filled, unplaced, max_endpoints)
        if name:
            changed[name] = filled
        else:
            creates.append(replace(new_slice(service, address_type, group.ports), endpoints=tuple(filled)))
    labels = slice_labels(service)
    updates = tuple(
        replace(
            by_name[name],
            metadata=replace(by_name[name].metadata, labels=labels),
            endpoints=tuple(final),
        )
        for name, final in changed.items()
    )
    return Plan(creates=tuple(creates), updates=updates, deletes=tuple(deletes), added=added, removed=removed)


def _fill_slice(endpoints: list[Endpoint], unplaced: list[Endpoint], max_endpoints: int) -> list[Endpoint]:
    """Move endpoints to the list until it is full, and return the rest."""
    room = max(0, max_endpoints - len(endpoints))
    endpoints += unplaced[:room]
    return unplaced[room:]


def _get_slice_to_fill(slices: dict[str, list[Endpoint]], count: int, max_endpoints: int) -> str:
    """The slice that is closest to full with all of them, if any."""
    best, closest = "", max_endpoints
    for name, endpoints in slices.items():
        free = max_endpoints - count - len(endpoints)
        if 0 <= free < closest:
            best, closest = name, free
    return best


def recycle_slices(plan: Plan, service: Service) -> Plan:
    """Reuse the names of slices that would be deleted for new slices: one write instead of two, without a gap. Only of
    slices of this Service; those of an earlier one are being garbage collected."""
    creates, deletes = list(plan.creates), []
    replacements: list[EndpointSlice] = []
    for endpoint_slice in plan.deletes:
        if creates and endpoint_slice.address_type == creates[-1].address_type and is_owned_by(endpoint_slice, service):
            reused = creates.pop()
            replacements.append(replace(reused, metadata=replace(reused.metadata, name=endpoint_slice.metadata.name)))
        else:
            deletes.append(endpoint_slice)
    return replace(plan, creates=tuple(creates), replacements=tuple(replacements), deletes=tuple(deletes))
