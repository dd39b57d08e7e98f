"""The claims of a pod while it is scheduled: which nodes they can be used from, and the devices that they get there.

One ``PodClaims`` is used for one attempt (upstream's ``stateData``). Searching devices may take long. A filter only
works for a few milliseconds in all (``begin_pass``); nodes that then have no result are rejected for the moment and
recorded in ``pending``. ``search_pending`` continues with them in steps, and the nodes are filtered again.
"""

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from pilothouse.api.core import Node
from pilothouse.api.resource import AllocationResult, ResourceClaim
from pilothouse.cel.limits import Busy
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.scheduler.plugins.dynamic_resources import NAME
from pilothouse.scheduler.plugins.dynamic_resources.binding_conditions import is_unavailable
from pilothouse.scheduler.plugins.dynamic_resources.device_class_resolver import DeviceClassResolver
from pilothouse.scheduler.plugins.dynamic_resources.extended_resources import (
    RequestMapping,
    create_requests_and_mappings,
    is_dra_extended_resource_name,
)
from pilothouse.scheduler.plugins.dynamic_resources.selectors import CompiledSelectors, PodSelectors
from pilothouse.scheduler.plugins.dynamic_resources.structured.allocator import Allocator, Search
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import (
    AllocationError,
    Compilation,
    Evaluation,
    FailedAllocationOnNode,
    SelectorResult,
    Work,
)
from pilothouse.semantics.node_affinity import matches_node_selector

T = TypeVar("T")

PASS_UNITS = 4_000
"""Work of all filters of one pass on the event loop: a few milliseconds."""
MAX_PENDING = 128
"""Nodes that are searched until nodes are filtered again: usually more than are needed."""
MAX_UNITS = 20_000_000
"""Work of one attempt, about ten seconds. Upstream allows as much for each node (``DRASchedulerFilterTimeout``)."""
_BUSY_SECONDS = 0.1
MAX_SCORE_OF_REQUEST = 8
"""``FirstAvailableDeviceRequestMaxSize``."""

PENDING = Status(NAME, ("devices are being searched",), unresolvable=True)
"""Of a node without a result. It is never reported."""
NOT_AVAILABLE = Status(NAME, ("resourceclaim not available on the node",), unresolvable=True)
CANNOT_ALLOCATE = Status(NAME, ("cannot allocate all claims",), unresolvable=True)
CANNOT_FIT = Status(NAME, ("cannot fit resource",), unresolvable=True)
CANNOT_SCHEDULE_EXTENDED = Status(NAME, ("cannot schedule extended resource claim",), unresolvable=True)
FAILED = Status(NAME, ("devices cannot be searched",), unresolvable=True)
"""After an error, which ends the attempt. It is never reported."""


class NodeAllocation(msgspec.Struct, frozen=True):
    """What the claims without an allocation get on a node, in their order."""

    allocations: tuple[AllocationResult, ...] = ()
    extended_claim: ResourceClaim | None = None
    """The claim for extended resources, made for this node."""
    mappings: tuple[RequestMapping, ...] = ()


class _Filtered(msgspec.Struct):
    """The result for a node, or the search that will have it."""

    node: Node
    status: Status | None
    allocation: NodeAllocation | None = None
    search: Search | None = None
    waits_for: Evaluation | Compilation | None = None
    """What the search waits for."""


class Context(msgspec.Struct, frozen=True):
    """What is needed to search devices for one pod."""

    classes: DeviceClassResolver
    allocator: Allocator
    selectors: PodSelectors
    compiler: CompiledSelectors
    now: Callable[[], datetime.datetime]


class PodClaims:
    """See the module. ``claims`` are those of the user, then that for extended resources.

    ``rejection`` rejects the pod on all nodes. ``error`` ends the attempt.
    """

    def __init__(
        self,
        pod_info: PodInfo,
        claims: Sequence[ResourceClaim],
        extended_claim: ResourceClaim | None,
        context: Context,
        *,
        rejection: Status | None = None,
        error: str = "",
    ) -> None:
        self.pod_info = pod_info
        self.claims = [*claims, *((extended_claim,) if extended_claim is not None else ())]
        self.extended_index = len(claims) if extended_claim is not None else -1
        self.rejection = rejection
        self.error = error
        self.unavailable: dict[int, None] = {}
        """The claims whose allocation some node cannot use, which PostFilter may deallocate."""
        self.pending: dict[str, _Filtered] = {}
        self._context = context
        self._filtered: dict[str, _Filtered] = {}
        self._units = 0
        self._to_allocate = [index for index, one in enumerate(self.claims) if one.status.allocation is None]

    @property
    def work(self) -> Work:
        """What the searches have done and may do."""
        return self._context.allocator.work

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources, without requests as long as it is not written."""
        return self.claims[self.extended_index] if self.extended_index >= 0 else None

    # Filter

    def begin_pass(self) -> None:
        """Filters may work again, and nothing is pending."""
        self._units = PASS_UNITS
        self.pending.clear()

    def filter_node(self, node_info: NodeInfo) -> Status | None:
        """Reject a node from which the claims cannot be used."""
        known = self._filtered.get(node_info.name)
        if known is None or known.node is not node_info.node:
            if len(self.pending) >= MAX_PENDING:
                return PENDING
            known = self._filtered[node_info.name] = self._start(node_info)
        if known.search is not None:
            self._continue(node_info.name, known)
        return known.status

    def allocation(self, node_name: str) -> NodeAllocation | None:
        """The allocation for a node that ``filter_node`` has accepted."""
        known = self._filtered.get(node_name)
        return known.allocation if known is not None else None

    def _start(self, node_info: NodeInfo) -> _Filtered:
        node, extended = node_info.node, None
        mappings: Sequence[RequestMapping] = ()
        if self.extended_claim is not None:
            status, extended, mappings = self._extended_claim_on(node_info, self.extended_claim)
            if status is not None or (extended is None and self.extended_index == 0):
                return _Filtered(node, status)
        unavailable = [
            index
            for index, claim in enumerate(self.claims)
            if claim.status.allocation is not None and self._is_unavailable(claim, node)
        ]
        if not self._to_allocate:
            self.unavailable |= dict.fromkeys(unavailable)
            return _Filtered(node, NOT_AVAILABLE if unavailable else None)
        to_allocate = [
            extended if index == self.extended_index and extended is not None else self.claims[index]
            for index in self._to_allocate
        ]
        filtered = _Filtered(node, PENDING, search=self._context.allocator.search(node, to_allocate))
        filtered.allocation = NodeAllocation(extended_claim=extended, mappings=tuple(mappings))
        if unavailable:
            # The search comes first: its errors have priority.
            filtered.allocation = None
            self.unavailable |= dict.fromkeys(unavailable)
        return filtered

    def _is_unavailable(self, claim: ResourceClaim, node: Node) -> bool:
        allocation = claim.status.allocation
        assert allocation is not None, "checked by the caller"
        selector = allocation.node_selector
        if selector is not None and not matches_node_selector(selector, node):
            return True
        return is_unavailable(claim, self._context.now())

    def _extended_claim_on(
        self, node_info: NodeInfo, claim: ResourceClaim
    ) -> tuple[Status | None, ResourceClaim | None, Sequence[RequestMapping]]:
        """The claim with requests for the resources that the node itself lacks (``filterExtendedResources``)."""
        if claim.spec.devices.requests:
            # One of an earlier attempt, which PostFilter deletes.
            return CANNOT_SCHEDULE_EXTENDED, None, ()
        resources: list[str] = []
        for name, amount in self.pod_info.requests.items():
            if not amount or not is_dra_extended_resource_name(name):
                continue
            if self._context.classes.device_class(name) is not None and not node_info.allocatable.get(name):
                resources.append(name)
            elif name not in node_info.allocatable:
                return CANNOT_FIT, None, ()
        if (self.extended_index == 0 and not resources) or claim.status.allocation is not None:
            return None, None, ()
        requests, mappings = create_requests_and_mappings(self.pod_info.pod, resources, self._class_name)
        devices = msgspec.structs.replace(claim.spec.devices, requests=tuple(requests))
        spec = msgspec.structs.replace(claim.spec, devices=devices)
        return None, msgspec.structs.replace(claim, spec=spec), mappings

    def _class_name(self, resource: str) -> str | None:
        device_class = self._context.classes.device_class(resource)
        return device_class.metadata.name if device_class is not None else None

    def _continue(self, node_name: str, filtered: _Filtered) -> None:
        """Search until there is a result, or the work of this pass is done."""
        work, search = self._context.allocator.work, filtered.search
        assert search is not None, "checked by the caller"
        if self.error:
            filtered.status = FAILED
            return
        if self._units <= 0 or filtered.waits_for is not None:
            self.pending[node_name] = filtered
            return
        spent_before = work.spent
        try:
            filtered.waits_for = search.run(self._units)
        except FailedAllocationOnNode as error:
            self._end(filtered, Status(NAME, (str(error),), unresolvable=True))
            return
        except AllocationError as error:
            self.error = f'running "{NAME}" filter plugin: {error}'
            self._end(filtered, FAILED)
            return
        finally:
            self._units -= work.spent - spent_before
        if not search.done:
            self.pending[node_name] = filtered
        elif search.result is None:
            self._end(filtered, CANNOT_ALLOCATE)
        elif filtered.allocation is None:
            self._end(filtered, NOT_AVAILABLE)
        else:
            allocation = msgspec.structs.replace(filtered.allocation, allocations=tuple(search.result))
            self._end(filtered, None)
            filtered.allocation = allocation

    def _end(self, filtered: _Filtered, status: Status | None) -> None:
        filtered.search = filtered.allocation = None
        filtered.status = status

    async def search_pending(self) -> None:
        """Continue with the nodes that are pending, while other tasks run in between."""
        for node_name, filtered in list(self.pending.items()):
            while filtered.search is not None and not self.error:
                await asyncio.sleep(0)
                if filtered.waits_for is not None:
                    result = await self._evaluate(filtered.waits_for)
                    filtered.search.evaluated(result)
                    filtered.waits_for = None
                self._units = PASS_UNITS
                self._continue(node_name, filtered)
            if self.error:
                return

    async def _evaluate(self, waits_for: Evaluation | Compilation) -> SelectorResult | None:
        if isinstance(waits_for, Evaluation):
            return await _not_busy(lambda: self._context.compiler.evaluate(waits_for))
        expression = waits_for.expression
        self._context.selectors.compiled[expression] = await _not_busy(
            lambda: self._context.compiler.compile(expression)
        )
        return None

    # Score

    def score_node(self, node_name: str) -> int:
        """How early the alternatives come that requests get on a node (``computeScore``)."""
        allocation = self.allocation(node_name)
        new = iter(allocation.allocations if allocation is not None else ())
        score = 0
        for claim in self.claims:
            result = claim.status.allocation or next(new, None)
            chosen = {one.request for one in result.devices.results} if result is not None else frozenset()
            for request in claim.spec.devices.requests:
                for position, alternative in enumerate(request.first_available):
                    if f"{request.name}/{alternative.name}" in chosen:
                        score += MAX_SCORE_OF_REQUEST - position
        return score

    @property
    def has_alternatives(self) -> bool:
        """Whether the score depends on the node."""
        return any(request.first_available for one in self.claims for request in one.spec.devices.requests)

    def new_allocations(self, node_name: str) -> Mapping[int, AllocationResult]:
        """The allocations to write, by the index of the claim. Empty if the node has all extended resources itself."""
        allocation = self.allocation(node_name)
        if allocation is None or not allocation.allocations:
            return {}
        return dict(zip(self._to_allocate, allocation.allocations, strict=True))


async def _not_busy(function: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await function()
        except Busy:
            await asyncio.sleep(_BUSY_SECONDS)
