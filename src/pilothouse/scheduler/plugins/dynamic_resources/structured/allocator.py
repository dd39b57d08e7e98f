"""The search for devices (``allocator_incubating.go``).

An exhaustive search: one claim after the other, for each of its requests one device after the other, in the order of
pools, slices and devices. If a device cannot be found, the previous choice is revised. The first solution is used.

``Search`` runs in steps. Its frames are generators on a stack of its own, since a pod may have more devices than
Python's stack has room for. A frame yields another frame, whose result it then receives; ``None`` to pause; or a
``Compilation`` or ``Evaluation``.
"""

import enum
from collections.abc import Callable, Generator, Sequence
from typing import Any

from pilothouse.api.core import Node
from pilothouse.api.resource import (
    AllocationResult,
    Device,
    DeviceTaint,
    RequestedDevices,
    ResourceClaim,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.constraints import Constraint, new_constraint
from pilothouse.scheduler.plugins.dynamic_resources.structured.consumable_capacity import (
    ConsumedCapacity,
    UndefinedCapacity,
    add_capacity,
    consumed_capacity,
    fits_capacity,
    subtract_capacity,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.counters import Available, Counters
from pilothouse.scheduler.plugins.dynamic_resources.structured.pools import (
    Pool,
    PoolCache,
    gather_pools,
    node_matches,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.requests import (
    ALL,
    EXACT_COUNT,
    Candidate,
    Chosen,
    Request,
    RequestKey,
    claim_name,
    expressions_of,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.results import allocation_result
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import (
    AllocatedState,
    AllocationError,
    Compilation,
    DeviceID,
    Evaluation,
    FailedAllocationOnNode,
    GetClass,
    SelectorResult,
    Selectors,
    SliceLister,
    Work,
)
from pilothouse.semantics.devices import tolerates

MAX_RESULTS = 32
"""Devices of a claim (``AllocationResultsMaxSize``)."""
_FRAME_UNITS, _REQUEST_UNITS, _DEVICE_UNITS, _CAPACITY_UNITS, _CONSTRAINT_UNITS = 10, 10, 5, 4, 2
_PREVENTING_EFFECTS = ("NoExecute", "NoSchedule")

Frame = Generator[Any, Any, Any]
Location = tuple[int, int, int]
"""Where the search for the next device of a request starts: positions of the pool, the slice, and the device."""
_START: Location = (0, 0, 0)


_SelectorKey = tuple[str, str, int]
"""Expression, driver, and identity of the device."""


class _Undecided(Exception):  # not an error: the caller tries again
    """Selectors cannot be evaluated now: a pause is due, or an evaluation is needed."""

    def __init__(self, key: _SelectorKey, evaluation: Evaluation | Compilation | None = None) -> None:
        self.key = key
        self.evaluation = evaluation


class _Outcome(enum.Enum):
    DONE = enum.auto()
    FAILED = enum.auto()
    TOO_MANY = enum.auto()
    """The claim would get more than ``MAX_RESULTS`` devices (``errAllocationResultMaxSizeExceeded``)."""


class SharedResults:
    """What does not depend on the pod: used for all pods, as long as slices do not change."""

    def __init__(self) -> None:
        self.pools: PoolCache = {}
        self.selectors: dict[_SelectorKey, tuple[Device, SelectorResult]] = {}
        """With the device, whose identity is in the key."""

    def __len__(self) -> int:
        return len(self.pools) + len(self.selectors)


class Allocator:
    """What the searches for the claims of one pod have in common."""

    def __init__(
        self,
        slices: SliceLister,
        allocated: AllocatedState,
        get_class: GetClass,
        selectors: Selectors,
        new_uid: Callable[[], str],
        work: Work,
        shared: SharedResults | None = None,
    ) -> None:
        self.slices = slices
        self.allocated = allocated
        self.get_class = get_class
        self.selectors = selectors
        self.new_uid = new_uid
        self.work = work
        self.shared = shared if shared is not None else SharedResults()
        self.available_counters: dict[str, Available] = {}

    def search(self, node: Node, claims: Sequence[ResourceClaim]) -> "Search":
        """Search for devices for all claims, accessible from the node."""
        return Search(self, node, claims)


class Search:
    """One search. ``result`` is set at its end: an allocation for each claim, or None if there is none."""

    def __init__(self, allocator: Allocator, node: Node, claims: Sequence[ResourceClaim]) -> None:
        self._allocator = allocator
        self._node = node
        self._claims = claims
        self.work = allocator.work
        self._pools: Sequence[Pool] = ()
        self._requests: dict[RequestKey, Request] = {}
        self._selected: dict[tuple[int, int], int] = {}
        """The alternatives that were chosen, by claim and request."""
        self._constraints: list[list[Constraint]] = []
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._allocating: dict[DeviceID, set[int]] = {}
        """The claims that the search allocates each device for."""
        self._allocating_capacity: dict[DeviceID, ConsumedCapacity] = {}
        self._counters = Counters(allocator.available_counters, allocator.allocated, allocator.work)
        self._selectable: dict[tuple[RequestKey, int], bool] = {}
        self._stack: list[Frame] = [self._allocate()]
        self._value: Any = None
        self.done = False
        self.result: list[AllocationResult] | None = None

    def run(self, units: int) -> Evaluation | Compilation | None:
        """Search until it has ended, or about so many units of work were done, or an expression must be compiled or
        evaluated elsewhere, after which ``evaluated`` must be called. Raises ``AllocationError`` and
        ``FailedAllocationOnNode``."""
        stack, work = self._stack, self.work
        work.resume(units)
        while stack:
            if work.exhausted:
                raise AllocationError(f"node {self._node.metadata.name}: timed out trying to allocate devices")
            try:
                yielded = stack[-1].send(self._value)
            except StopIteration as end:
                stack.pop()
                self._value = end.value
                continue
            self._value = None
            if yielded is None:
                return None
            if isinstance(yielded, Evaluation | Compilation):
                return yielded
            stack.append(yielded)
            if work.charge(_FRAME_UNITS):
                return None
        self.done, self.result = True, self._value
        return None

    def evaluated(self, result: SelectorResult | None) -> None:
        """Continue with the result of the evaluation; None after compiling."""
        self._value = result

    # The frames

    def _allocate(self) -> Frame:
        self._pools = yield from gather_pools(
            self._allocator.slices, self._node, self._allocator.shared.pools, self.work
        )
        for position, claim in enumerate(self._claims):
            yield from self._check_claim(position, claim)
        outcome = yield self._allocate_one(0, 0, 0, 0, _START, in_alternative=False)
        if outcome is not _Outcome.DONE:
            if outcome is _Outcome.FAILED and any(pool.is_invalid for pool in self._pools):
                raise FailedAllocationOnNode("invalid resource pools were encountered")
            if outcome is _Outcome.TOO_MANY:
                raise AllocationError("allocation max size exceeded")
            return None
        return [
            allocation_result(
                claim, self._requests_of(position, claim), self._chosen[position], self._node, self._allocator.new_uid
            )
            for position, claim in enumerate(self._claims)
        ]

    def _requests_of(self, position: int, claim: ResourceClaim) -> list[Request]:
        """The requests of the claim, with the alternatives that were chosen."""
        return [
            self._requests[position, index, self._selected.get((position, index), 0)]
            for index in range(len(claim.spec.devices.requests))
        ]

    def _check_claim(self, position: int, claim: ResourceClaim) -> Frame:
        """Look up what the requests need, and check that the result is not too large."""
        least_in_claim = 0
        for index, request in enumerate(claim.spec.devices.requests):
            specs: list[tuple[str, RequestedDevices]] = [("", request.exactly)] if request.exactly is not None else []
            if request.first_available:
                specs = [(alternative.name, alternative) for alternative in request.first_available]
            counts: list[int] = []
            for alternative, (name, spec) in enumerate(specs):
                if self.work.charge(_REQUEST_UNITS + len(spec.selectors)):
                    yield
                key = position, index, alternative
                yield from self._check_request(key, claim, request.name, name, spec)
                counts.append(self._requests[key].count)
            least_in_claim += min(counts, default=0)
        if least_in_claim > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim_name(claim)}: number of requested devices {least_in_claim} exceeds the claim limit of "
                f"{MAX_RESULTS}"
            )
        constraints: list[Constraint] = []
        for number, one in enumerate(claim.spec.devices.constraints):
            constraint = new_constraint(one)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim_name(claim)}, constraint #{number}: empty constraint (unsupported constraint type?)"
                )
            constraints.append(constraint)
        self._constraints.append(constraints)

    def _check_request(
        self, key: RequestKey, claim: ResourceClaim, name: str, alternative: str, spec: RequestedDevices
    ) -> Frame:
        """``validateDeviceRequest``."""
        where = f"claim {claim_name(claim)}, request {alternative or name}"
        for number, selector in enumerate(spec.selectors):
            if selector.cel is None:
                raise AllocationError(f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)")
        if not spec.device_class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._allocator.get_class(spec.device_class_name)
        if device_class is None:
            class_name = spec.device_class_name
            raise AllocationError(
                f"{where}: could not retrieve device class {class_name}: deviceclass.resource.k8s.io "
                f'"{class_name}" not found'
            )
        request = Request(
            name,
            alternative,
            spec,
            device_class,
            spec.count,
            expressions_of(device_class.spec.selectors),
            expressions_of(spec.selectors),
        )
        if spec.allocation_mode == ALL:
            request.all_devices = yield from self._all_devices(key, request, where)
            request.count = len(request.all_devices)
        elif spec.allocation_mode != EXACT_COUNT:
            raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
        self._requests[key] = request

    def _all_devices(self, key: RequestKey, request: Request, where: str) -> Frame:
        """The devices that ``All`` selects. Raises ``AllocationError`` if it cannot be determined."""
        found: list[Candidate] = []
        for pool in self._pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(f"{where}: asks for all devices, but resource pool {pool} is currently {state}")
            for in_slice in pool.slices:
                for device in in_slice.spec.devices:
                    candidate = Candidate(device, in_slice, pool)
                    if self.work.charge(_DEVICE_UNITS):
                        yield
                    selectable = yield from self._await_selectable(key, request, candidate)
                    if selectable and self._fits(request, candidate):
                        found.append(candidate)
        return found

    def _allocate_one(  # as upstream's, which is easier to compare in one piece
        self,
        claim_index: int,
        request_index: int,
        alternative: int,
        device_index: int,
        start: Location,
        *,
        in_alternative: bool,
    ) -> Frame:
        """Allocate a device, and everything that comes after it.

        ``start`` is where to search: the devices of one request are chosen in order, so that each combination is tried
        once.
        """
        if claim_index >= len(self._claims):
            return _Outcome.DONE
        if request_index >= len(self._claims[claim_index].spec.devices.requests):
            outcome = yield self._allocate_one(claim_index + 1, 0, 0, 0, _START, in_alternative=False)
            # Other devices for this claim may leave an alternative with fewer devices to the next one.
            return _Outcome.FAILED if outcome is _Outcome.TOO_MANY else outcome
        key = claim_index, request_index, alternative
        request = self._requests[key]
        if request.alternative and not in_alternative:
            return (yield self._allocate_first_available(claim_index, request_index))
        if request.takes_all and not request.all_devices:
            return _Outcome.FAILED
        if device_index >= request.count:
            return (yield self._allocate_one(claim_index, request_index + 1, 0, 0, _START, in_alternative=False))
        if len(self._chosen[claim_index]) + request.count - device_index > MAX_RESULTS:
            return _Outcome.TOO_MANY

        def next_device(start: Location) -> Frame:
            return self._allocate_one(
                claim_index, request_index, alternative, device_index + 1, start, in_alternative=in_alternative
            )

        if request.takes_all:
            undo = self._allocate_device(claim_index, request, request.all_devices[device_index], must=True)
            if undo is None:
                return _Outcome.FAILED
            outcome = yield next_device(_START)
            if outcome is not _Outcome.DONE:
                undo()
            return outcome
        return (yield self._try_devices(key, request, start, next_device))

    def _allocate_first_available(self, claim_index: int, request_index: int) -> Frame:
        """Try one alternative after the other. ``TOO_MANY`` if all of them exceed the size of a result."""
        combined = _Outcome.TOO_MANY
        alternative = 0
        while (claim_index, request_index, alternative) in self._requests:
            outcome = yield self._allocate_one(claim_index, request_index, alternative, 0, _START, in_alternative=True)
            if outcome is _Outcome.DONE:
                self._selected[claim_index, request_index] = alternative
                return outcome
            if outcome is _Outcome.FAILED:
                combined = outcome
            alternative += 1
        return combined

    def _try_devices(
        self, key: RequestKey, request: Request, start: Location, next_device: Callable[[Location], Frame]
    ) -> Frame:
        """Try one device after the other for an exact count."""
        claim_index, admin_access = key[0], request.admin_access
        first_pool, first_slice, first_device = start
        for pool_index in range(first_pool, len(self._pools)):
            pool = self._pools[pool_index]
            for slice_index in range(first_slice, len(pool.slices)):
                in_slice = pool.slices[slice_index]
                devices = in_slice.spec.devices
                for position in range(first_device, len(devices)):
                    candidate = Candidate(devices[position], in_slice, pool)
                    if self.work.charge(_DEVICE_UNITS + _CAPACITY_UNITS * len(candidate.device.capacity)):
                        yield
                    # Whether it is in use is checked first, because that is cheap.
                    if (
                        claim_index in self._allocating.get(candidate.id, ())
                        if admin_access
                        else self._is_in_use(candidate.id)
                    ):
                        continue
                    try:
                        selectable = self._is_selectable(key, request, candidate)
                    except _Undecided:
                        selectable = yield from self._await_selectable(key, request, candidate)
                    if not selectable or not self._fits(request, candidate):
                        continue
                    undo = self._allocate_device(claim_index, request, candidate, must=False)
                    if undo is None:
                        continue
                    outcome = yield next_device((pool_index, slice_index, position + 1))
                    if outcome is _Outcome.DONE:
                        return outcome
                    undo()
                    if outcome is _Outcome.TOO_MANY:
                        return outcome
                first_device = 0
            first_slice = 0
        return _Outcome.FAILED

    # Devices

    def _await_selectable(self, key: RequestKey, request: Request, candidate: Candidate) -> Frame:
        """``_is_selectable``, after pauses and evaluations."""
        while True:
            try:
                return self._is_selectable(key, request, candidate)
            except _Undecided as undecided:
                result = yield undecided.evaluation
                if isinstance(undecided.evaluation, Evaluation):
                    self._allocator.shared.selectors[undecided.key] = candidate.device, result

    def _is_selectable(self, key: RequestKey, request: Request, candidate: Candidate) -> bool:
        """Whether the selectors of class and request match, and the device is accessible from the node. Raises
        ``_Undecided``."""
        device = candidate.device
        cache_key = key, id(device)
        known = self._selectable.get(cache_key)
        if known is None:
            known = self._matches_selectors(key, request, candidate)
            if known and candidate.slice.spec.per_device_node_selection:
                known = node_matches(self._node, device.node_name, device.all_nodes, device.node_selector)
            self._selectable[cache_key] = known
        return known

    def _matches_selectors(self, key: RequestKey, request: Request, candidate: Candidate) -> bool:
        for number, expression in enumerate(request.class_expressions):
            result = self._evaluate(expression, candidate)
            if isinstance(result, str):
                name = request.device_class.metadata.name
                raise AllocationError(f"class {name}: selector #{number}: {result}")
            if not result:
                return False
        for number, expression in enumerate(request.expressions):
            result = self._evaluate(expression, candidate)
            if isinstance(result, str):
                raise AllocationError(f"claim {claim_name(self._claims[key[0]])}: selector #{number}: {result}")
            if not result:
                return False
        return True

    def _evaluate(self, expression: str, candidate: Candidate) -> SelectorResult:
        """The result, which is the same for every node. Raises ``_Undecided``."""
        device, driver = candidate.device, candidate.pool.driver
        key = expression, driver, id(device)
        known = self._allocator.shared.selectors.get(key)
        if known is None:
            if self.work.is_pause_due:
                raise _Undecided(key)
            result = self._allocator.selectors.matches(expression, device, driver, self.work)
            if isinstance(result, Evaluation | Compilation):
                raise _Undecided(key, result)
            known = self._allocator.shared.selectors[key] = device, result
        return known[1]

    def _fits(self, request: Request, candidate: Candidate) -> bool:
        """Whether the device has the requested capacity left. False if it does not know the capacity."""
        device_id = candidate.id
        try:
            return fits_capacity(
                candidate.device,
                request.spec.capacity,
                self._allocator.allocated.capacities.get(device_id, {}),
                self._allocating_capacity.get(device_id, {}),
            )
        except UndefinedCapacity:
            return False

    def _is_in_use(self, device_id: DeviceID) -> bool:
        return device_id in self._allocator.allocated.devices or bool(self._allocating.get(device_id))

    def _has_capacity_in_use(self, device_id: DeviceID) -> bool:
        return device_id in self._allocator.allocated.capacities or device_id in self._allocating_capacity

    def _allocate_device(
        self, claim_index: int, request: Request, candidate: Candidate, *, must: bool
    ) -> Callable[[], None] | None:
        """Allocate a device that is selectable, if it is available and constraints allow it. Returns what undoes it.

        ``must``: exactly this device is needed, so that a constraint that prevents it is an error of the claim.
        """
        device, device_id = candidate.device, candidate.id
        shareable, admin_access = device.allow_multiple_allocations, request.admin_access
        if admin_access:
            if not shareable and claim_index in self._allocating.get(device_id, ()):
                return None
        elif self._is_in_use(device_id):
            return None
        consumes = bool(device.consumes_counters)
        # A device that is partly allocated has consumed its counters already. As upstream, the counters of a device
        # that a taint or constraint prevents remain consumed until the end of the search.
        if (
            consumes
            and not (shareable and self._has_capacity_in_use(device_id))
            and not self._counters.consume(candidate)
        ):
            return None
        if _taint_prevents_allocation(device, request):
            return None
        if not self._add_to_constraints(claim_index, request, candidate, must=must):
            return None
        if not shareable:
            self._allocating.setdefault(device_id, set()).add(claim_index)
        # Only for ``All`` another device can have taken the capacity since it was checked. As upstream, what was
        # recorded before remains, so that an alternative of the request may fail.
        if not self._fits(request, candidate):
            return None
        consumed: ConsumedCapacity | None = None
        if shareable:
            consumed = consumed_capacity(device, request.spec.capacity)
            add_capacity(self._allocating_capacity.setdefault(device_id, {}), consumed)
        chosen = self._chosen[claim_index]
        chosen.append(Chosen(request, candidate, consumed))

        def undo() -> None:
            self._remove_from_constraints(claim_index, request)
            if consumed is None:
                self._allocating[device_id].discard(claim_index)
                if consumes:
                    self._counters.release(candidate)
            else:
                self._release_capacity(device_id, consumed)
            chosen.pop()

        return undo

    def _release_capacity(self, device_id: DeviceID, consumed: ConsumedCapacity) -> None:
        allocating = self._allocating_capacity.get(device_id)
        if allocating is not None:
            subtract_capacity(allocating, consumed)
            if not any(allocating.values()):
                del self._allocating_capacity[device_id]

    def _add_to_constraints(self, claim_index: int, request: Request, candidate: Candidate, *, must: bool) -> bool:
        added: list[Constraint] = []
        self.work.charge(_CONSTRAINT_UNITS * len(self._constraints[claim_index]))
        for constraint in self._constraints[claim_index]:
            if constraint.add(request.name, request.alternative, candidate.device, candidate.pool.driver):
                added.append(constraint)
                continue
            if must:
                raise AllocationError(
                    f"claim {claim_name(self._claims[claim_index])}, request {request.own_name}: cannot add device "
                    f"{'/'.join(candidate.id)} because a claim constraint would not be satisfied"
                )
            for one in added:
                one.remove(request.name, request.alternative)
            return False
        return True

    def _remove_from_constraints(self, claim_index: int, request: Request) -> None:
        for constraint in self._constraints[claim_index]:
            constraint.remove(request.name, request.alternative)


def _taint_prevents_allocation(device: Device, request: Request) -> bool:
    return any(taint.effect in _PREVENTING_EFFECTS and not _is_tolerated(taint, request) for taint in device.taints)


def _is_tolerated(taint: DeviceTaint, request: Request) -> bool:
    return any(tolerates(toleration, taint) for toleration in request.spec.tolerations)
