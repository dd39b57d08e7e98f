"""The allocation of a claim: devices, configuration, and the nodes from which it can be used."""

from collections.abc import Callable, Sequence

from pilothouse.api.core import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from pilothouse.api.resource import (
    AllocatedDevice,
    AllocationResult,
    DeviceAllocation,
    DeviceAllocationConfiguration,
    ResourceClaim,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.requests import Chosen, Request
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import AllocationError

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_result(
    claim: ResourceClaim, requests: Sequence[Request], chosen: Sequence[Chosen], node: Node, new_uid: Callable[[], str]
) -> AllocationResult:
    """``requests`` are those of the claim, with the alternatives that were chosen."""
    results = tuple(_allocated_device(one, new_uid) for one in chosen)
    config = (*_class_configuration(requests), *_claim_configuration(claim, requests))
    return AllocationResult(
        devices=DeviceAllocation(results=results, config=config), node_selector=_node_selector(claim, chosen, node)
    )


def _allocated_device(chosen: Chosen, new_uid: Callable[[], str]) -> AllocatedDevice:
    request, device = chosen.request, chosen.candidate.device
    driver, pool, name = chosen.candidate.id
    consumed = chosen.consumed
    return AllocatedDevice(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=request.admin_access,
        tolerations=request.spec.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=new_uid() if consumed is not None else None,
        consumed_capacity={key: str(amount) for key, amount in consumed.items()} if consumed else {},
    )


def _class_configuration(requests: Sequence[Request]) -> list[DeviceAllocationConfiguration]:
    """The configuration of each class once, for all requests that use it."""
    names: dict[str, list[str]] = {}
    for request in requests:
        names.setdefault(request.device_class.metadata.name, []).append(request.full_name)
    classes = {request.device_class.metadata.name: request.device_class for request in requests}
    return [
        DeviceAllocationConfiguration(source=FROM_CLASS, requests=tuple(names[name]), opaque=one.opaque)
        for name, device_class in classes.items()
        for one in device_class.spec.config
    ]


def _claim_configuration(claim: ResourceClaim, requests: Sequence[Request]) -> list[DeviceAllocationConfiguration]:
    """The configuration of the claim for all requests, or for requests that got devices. As upstream, an entry that
    names several requests is repeated for each of them."""
    found: list[DeviceAllocationConfiguration] = []
    for one in claim.spec.devices.config:
        entry = DeviceAllocationConfiguration(source=FROM_CLAIM, requests=one.requests, opaque=one.opaque)
        if not one.requests:
            found.append(entry)
        found += [entry for request in requests if request.name in one.requests or request.full_name in one.requests]
    return found


def _node_selector(claim: ResourceClaim, chosen: Sequence[Chosen], node: Node) -> NodeSelector | None:
    """The nodes from which all devices are accessible; None for every node (``createNodeSelector``)."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for one in chosen:
        device = one.candidate.device
        selects = device if one.candidate.slice.spec.per_device_node_selection else one.candidate.slice.spec
        if selects.node_name or device.binds_to_node:
            name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node.metadata.name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))
        terms = selects.node_selector.node_selector_terms if selects.node_selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: unsupported ResourceSlice.NodeSelector with "
                f"{len(terms)} terms"
            )
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(requirements: list[NodeSelectorRequirement], added: Sequence[NodeSelectorRequirement]) -> None:
    for requirement in added:
        if not any(
            (one.key, one.operator, set(one.values)) == (requirement.key, requirement.operator, set(requirement.values))
            for one in requirements
        ):
            requirements.append(requirement)
