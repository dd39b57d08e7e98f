"""The slices of Endpoints, and the changes. Pure. Upstream: v1.36 ``pkg/controller/endpointslicemirroring``; instead of
upstream's random map order, subsets and names of slices determine the order."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from pilothouse.api.core import ENDPOINTS, EndpointAddress, Endpoints, EndpointsPort, PartialEndpoints, Service
from pilothouse.api.discovery import LABEL_SKIP_MIRROR, Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.slices import (
    MANAGED_BY,
    SERVICE_NAME,
    Identity,
    PortKey,
    endpoints_equal,
    identity,
    port_key,
)
from pilothouse.machinery.owners import controller_of, new_controller_reference
from pilothouse.semantics.services import TRIGGER_TIME, canonical_ip, slice_name_prefix
from pilothouse.semantics.subsets import is_lock, repack

MANAGER = "endpointslicemirroring-controller.k8s.io"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
FAMILIES = ("IPv4", "IPv6")

_NOT_COPIED = (TRIGGER_TIME, LAST_APPLIED)

GroupKey = tuple[PortKey, str]
"""Ports and family, which all endpoints of a slice have in common."""


def should_mirror(endpoints: PartialEndpoints) -> bool:
    """Whether label and annotations of the Endpoints allow it (``shouldMirror``)."""
    meta = endpoints.metadata
    return meta.labels.get(LABEL_SKIP_MIRROR) != "true" and not is_lock(meta)


def has_selector(service: Service) -> bool:
    """An empty selector is omitted in JSON and decoded as none."""
    return bool(service.spec.selector)


class PortGroup(msgspec.Struct):
    ports: tuple[EndpointPort, ...]
    endpoints: dict[Identity, Endpoint]


class DesiredEndpoints(msgspec.Struct):
    """The groups, also empty ones, the invalid addresses, and how many were skipped in all, these included."""

    groups: dict[GroupKey, PortGroup]
    invalid: list[str]
    skipped: int


def desired_endpoints(endpoints: Endpoints, max_endpoints: int) -> DesiredEndpoints:
    """For each subset the ready addresses and then the others, up to ``max_endpoints``."""
    desired = DesiredEndpoints({}, [], 0)
    for subset in repack(endpoints.subsets):
        ports = tuple(map(_port_of, subset.ports))
        key = port_key(ports)
        for family in FAMILIES:
            desired.groups.setdefault((key, family), PortGroup(ports, {}))
        added = 0
        for ready, addresses in ((True, subset.addresses), (False, subset.not_ready_addresses)):
            for address in addresses:
                if added >= max_endpoints:
                    break
                created = endpoint_of(address, ready)
                if created is None:
                    desired.invalid.append(address.ip)
                    continue
                family, endpoint = created
                desired.groups[key, family].endpoints[identity(endpoint)] = endpoint
                added += 1
        desired.skipped += len(subset.addresses) + len(subset.not_ready_addresses) - added
    return desired


def endpoint_of(address: EndpointAddress, ready: bool) -> tuple[str, Endpoint] | None:
    """The address as an endpoint, and its family; None if it is invalid."""
    ip = canonical_ip(address.ip)
    if ip is None:
        return None
    family, text = ip
    return family, Endpoint(
        addresses=(text,),
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        target_ref=address.target_ref,
        node_name=address.node_name,
    )


def _port_of(port: EndpointsPort) -> EndpointPort:
    return EndpointPort(name=port.name, protocol=port.protocol or "TCP", port=port.port, app_protocol=port.app_protocol)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the slices, and how many endpoints change.

    ``updates`` replace the whole slice. ``counts`` has the resulting number of endpoints and slices per group.
    """

    creates: tuple[EndpointSlice, ...] = ()
    updates: tuple[EndpointSlice, ...] = ()
    deletes: tuple[EndpointSlice, ...] = ()
    added: int = 0
    updated: int = 0
    removed: int = 0
    counts: tuple[tuple[int, int], ...] = ()


def decide(endpoints: Endpoints, existing: Iterable[EndpointSlice], desired: DesiredEndpoints) -> Plan:
    """One slice for each group that has endpoints; the others are deleted."""
    by_group: dict[GroupKey, list[EndpointSlice]] = {}
    for endpoint_slice in sorted(existing, key=lambda candidate: candidate.metadata.name):
        by_group.setdefault((port_key(endpoint_slice.ports or ()), endpoint_slice.address_type), []).append(
            endpoint_slice
        )
    plans = [
        _reconcile_by_port_mapping(endpoints, by_group.pop(key, []), desired.groups[key], key[1])
        for key in sorted(desired.groups)
    ]
    obsolete = [endpoint_slice for slices in by_group.values() for endpoint_slice in slices]
    return _recycle_slices(
        Plan(
            creates=tuple(endpoint_slice for plan in plans for endpoint_slice in plan.creates),
            updates=tuple(endpoint_slice for plan in plans for endpoint_slice in plan.updates),
            deletes=(*(endpoint_slice for plan in plans for endpoint_slice in plan.deletes), *obsolete),
            added=sum(plan.added for plan in plans),
            updated=sum(plan.updated for plan in plans),
            removed=sum(plan.removed for plan in plans),
            counts=tuple(count for plan in plans for count in plan.counts),
        )
    )


def _reconcile_by_port_mapping(
    endpoints: Endpoints, existing: Sequence[EndpointSlice], group: PortGroup, family: str
) -> Plan:
    """One group (``reconcileByPortMapping``)."""
    if not group.endpoints:
        removed = sum(len(endpoint_slice.endpoints or ()) for endpoint_slice in existing)
        return Plan(deletes=tuple(existing), removed=removed, counts=((0, 0),))
    counts = ((len(group.endpoints), 1),)
    if not existing:
        created = new_slice(endpoints, family, group)
        return Plan(creates=(created,), added=len(group.endpoints), counts=counts)
    first, remaining = existing[0], tuple(existing[1:])
    pairs = [(endpoint, group.endpoints.get(identity(endpoint))) for endpoint in first.endpoints or ()]
    unremoved = [(endpoint, desired) for endpoint, desired in pairs if desired is not None]
    removed, added = len(pairs) - len(unremoved), len(group.endpoints) - len(unremoved)
    updated = sum(not endpoints_equal(desired, endpoint) for endpoint, desired in unremoved)
    updates: tuple[EndpointSlice, ...] = ()
    if removed or added or updated or not _belongs_to(first, endpoints):
        renewed = new_slice(endpoints, family, group)
        updates = (replace(renewed, metadata=replace(renewed.metadata, name=first.metadata.name, generate_name="")),)
    return Plan(updates=updates, deletes=remaining, added=added, updated=updated, removed=removed, counts=counts)


def _belongs_to(endpoint_slice: EndpointSlice, endpoints: Endpoints) -> bool:
    """Whether labels, annotations and owner are those of the Endpoints, and not of older ones of the same name."""
    slice_labels = {
        key: value for key, value in endpoint_slice.metadata.labels.items() if key not in (MANAGED_BY, SERVICE_NAME)
    }
    endpoints_labels = {
        key: value for key, value in endpoints.metadata.labels.items() if key not in (MANAGED_BY, SERVICE_NAME)
    }
    if slice_labels != endpoints_labels or endpoint_slice.metadata.annotations != _annotations(endpoints):
        return False
    owner = controller_of(endpoint_slice.metadata)
    return owner is None or owner.uid == endpoints.metadata.uid


def _annotations(endpoints: Endpoints) -> dict[str, str]:
    return {key: value for key, value in endpoints.metadata.annotations.items() if key not in _NOT_COPIED}


def new_slice(endpoints: Endpoints, family: str, group: PortGroup) -> EndpointSlice:
    """The slice of a group, with a ``generateName`` (``newEndpointSlice``)."""
    meta = endpoints.metadata
    return EndpointSlice(
        metadata=ObjectMeta(
            generate_name=slice_name_prefix(meta.name),
            namespace=meta.namespace,
            labels={**meta.labels, SERVICE_NAME: meta.name, MANAGED_BY: MANAGER},
            annotations=_annotations(endpoints),
            owner_references=(new_controller_reference(meta, ENDPOINTS),),
        ),
        address_type=family,
        endpoints=tuple(group.endpoints.values()),
        ports=group.ports,
    )


def _recycle_slices(plan: Plan) -> Plan:
    """Reuse the names of slices of the same family that would be deleted for new slices: one write instead of two,
    without a gap (``recycleSlices``)."""
    creates, updates, deletes = list(plan.creates), list(plan.updates), []
    for endpoint_slice in plan.deletes:
        match = next((created for created in creates if created.address_type == endpoint_slice.address_type), None)
        if match is None:
            deletes.append(endpoint_slice)
        else:
            creates.remove(match)
            # As upstream's, the recycled slice keeps its generateName, unlike an updated one.
            updates.append(replace(match, metadata=replace(match.metadata, name=endpoint_slice.metadata.name)))
    return replace(plan, creates=tuple(creates), updates=tuple(updates), deletes=tuple(deletes))
