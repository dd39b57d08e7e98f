"""Admission: an ordered chain of small plugins between decoding and validation.

A plugin may change an object (``admit``), allocate something for it (``allocate``: addresses, ports) or only validate
it (``validate``). All ``admit`` run first, in order, then the object gets its name, then all ``allocate`` run, then all
``validate``. A plugin that never waits returns None; one that must wait returns an awaitable.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.metrics.admission import AdmissionMetrics, Phase, StepType
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.resources import ResourceInfo


class AdmissionAttributes(msgspec.Struct):
    """One write, as plugins see it. ``obj`` is None for a deletion, ``old`` is None for a creation."""

    operation: str
    info: ResourceInfo
    namespace: str
    name: str
    identity: Identity
    subresource: str = ""
    obj: Object | None = None
    old: Object | None = None
    dry_run: bool = False
    warnings: list[str] = []
    steps: "Steps | None" = None
    """What the write passes; set by the chain that it passes first."""
    asked: Object | None = None
    """What was asked for of that which ``allocate`` allocates, kept by the plugin for another attempt."""

    @property
    def pod(self) -> Object | None:
        """The pod that is made or updated; None if the write is about anything else, be it a part of a pod."""
        info = self.info
        return self.obj if info.resource == "pods" and not info.group and not self.subresource else None


def new_forbidden(write: AdmissionAttributes, reason: str) -> errors.StatusError:
    """The 403 of a plugin. An object whose name is still to be generated goes by the beginning of its name (apiserver
    ``pkg/admission/errors.go``, v0.36)."""
    meta = {} if write.obj is None else write.obj.get("metadata") or {}
    name = write.name or meta.get("name") or meta.get("generateName") or "Unknown"
    return errors.forbidden(write.info, name, reason)


class Plugin:
    """Does nothing; plugins override what they need. A rejection is a raised ``StatusError``."""

    name: str = ""
    """Upstream's name, by which metrics show it; empty for one that upstream does not have."""
    resources: frozenset[str] | None = None
    """The resources that the plugin handles (``pods``, ``ingresses.networking.k8s.io``); None: all. It is not called
    for others."""

    def reads_updates(self, resource: str) -> bool:
        """Whether the plugin reads or changes the objects in updates of the resource, which is named as in
        ``resources``. One that goes by users and names does not, and may be asked about an ``AdmissionAttributes``
        without them."""
        return True

    def admit(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        """Reject the write, or change ``write.obj`` in place."""
        return None

    def reinvoke(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        """``admit`` once more, after webhooks have changed the object."""
        return self.admit(write)

    def allocate(self, write: AdmissionAttributes) -> None:
        """Reject the write, or allocate what ``write.obj`` needs. Its name is set by now, even if it is generated."""

    def validate(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        """Reject the write, or let it pass unchanged."""
        return None


Step = Callable[[AdmissionAttributes], Awaitable[None] | None]


class Steps:
    """The ``admit``, ``allocate`` and ``validate`` methods that the writes of one resource pass, and what counts them,
    by operation."""

    __slots__ = ("admit", "admit_phases", "allocate", "chain", "reads_updates", "validate", "validate_phases")

    def __init__(self, chain: "Chain", plugins: Sequence[Plugin], resource: str) -> None:
        self.chain = chain
        self.admit: tuple[Step, ...] = tuple(one.admit for one in plugins if type(one).admit is not Plugin.admit)
        self.allocate = tuple(one.allocate for one in plugins if type(one).allocate is not Plugin.allocate)
        self.validate: tuple[Step, ...] = tuple(
            one.validate for one in plugins if type(one).validate is not Plugin.validate
        )
        self.reads_updates = any(one.reads_updates(resource) for one in plugins if _acts(type(one)))
        self.admit_phases: dict[str, Phase] = {}
        self.validate_phases: dict[str, Phase] = {}


class Chain:
    """Plugins in order. ``plugins`` may be changed at any time."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self.plugins = list(plugins)
        self._seen: list[Plugin] = []
        self._steps: dict[str, Steps] = {}
        self.metrics: AdmissionMetrics | None = None
        """Counts what the plugins do; None where nothing shows it."""
        self._phases: list[Phase] = []

    def reads_updates(self, write: AdmissionAttributes) -> bool:
        """Whether a plugin reads or changes the object in an update of that resource."""
        return self._of(write).reads_updates

    async def admit(self, write: AdmissionAttributes) -> None:
        """Run the plugins that may change the object."""
        steps = self._of(write)
        if self.metrics is not None:
            pending = self._run(self.metrics, self._admit_phase(self.metrics, steps, write), steps.admit, write)
            if pending is not None:
                await pending
            return
        for step in steps.admit:
            pending = step(write)
            if pending is not None:
                await pending

    def allocate(self, write: AdmissionAttributes) -> None:
        """Run the plugins that allocate something for the object."""
        for step in self._of(write).allocate:
            step(write)

    async def validate(self, write: AdmissionAttributes) -> None:
        """Run the plugins that only validate."""
        steps = self._of(write)
        if self.metrics is not None:
            phase = self._validate_phase(self.metrics, steps, write)
            pending = self._run(self.metrics, phase, steps.validate, write)
            if pending is not None:
                await pending
            return
        for step in steps.validate:
            pending = step(write)
            if pending is not None:
                await pending

    def passes_at_once(self, write: AdmissionAttributes) -> bool:
        """Run all plugins for a write whose object none of them reads (``reads_updates``). False when one would have to
        wait: then the write has to be admitted step by step. Raises ``StatusError`` as they do."""
        steps, metrics = self._of(write), self.metrics
        if metrics is not None:
            pending = self._run(metrics, self._admit_phase(metrics, steps, write), steps.admit, write)
        else:
            pending = _first_pending(steps.admit, write)
        if pending is None:
            for step in steps.allocate:
                step(write)
            if metrics is not None:
                pending = self._run(metrics, self._validate_phase(metrics, steps, write), steps.validate, write)
            else:
                pending = _first_pending(steps.validate, write)
        if pending is None:
            return True
        if isinstance(pending, Coroutine):
            pending.close()
        return False

    def _admit_phase(self, metrics: AdmissionMetrics, steps: Steps, write: AdmissionAttributes) -> Phase:
        phase = steps.admit_phases.get(write.operation)
        if phase is None:
            phase = self._new_phase(metrics, "admit", steps.admit, write.operation)
            steps.admit_phases[write.operation] = phase
        return phase

    def _validate_phase(self, metrics: AdmissionMetrics, steps: Steps, write: AdmissionAttributes) -> Phase:
        phase = steps.validate_phases.get(write.operation)
        if phase is None:
            phase = self._new_phase(metrics, "validate", steps.validate, write.operation)
            steps.validate_phases[write.operation] = phase
        return phase

    def _new_phase(self, metrics: AdmissionMetrics, kind: StepType, steps: tuple[Step, ...], operation: str) -> Phase:
        phase = metrics.phase(kind, operation, [_name(step) for step in steps])
        self._phases.append(phase)
        return phase

    def _run(
        self, metrics: AdmissionMetrics, phase: Phase, steps: tuple[Step, ...], write: AdmissionAttributes
    ) -> Awaitable[None] | None:
        """Run the steps and count them. What is left when one has to wait is an awaitable."""
        clock = metrics.clock
        began, index = clock(), 0
        try:
            for index, step in enumerate(steps):  # that of the plugin that rejects is read below
                pending = step(write)
                if pending is not None:
                    return self._run_rest(phase, clock, began, steps[index:], index, pending, write)
        except errors.StatusError:
            phase.rejected(index, clock() - began)
            raise
        phase.passed(clock() - began)
        return None

    async def _run_rest(
        self,
        phase: Phase,
        clock: Callable[[], float],
        began: float,
        steps: tuple[Step, ...],
        first: int,
        pending: Awaitable[None] | None,
        write: AdmissionAttributes,
    ) -> None:
        """The first of these steps, the one at ``first`` of the phase, waits for ``pending``; then the others."""
        waits: dict[int, float] = {}
        index = first
        try:
            for index, step in enumerate(steps, start=first):
                if index > first:
                    pending = step(write)
                if pending is not None:
                    asked = clock()
                    await pending
                    waits[index] = clock() - asked
        except errors.StatusError:
            phase.rejected(index, clock() - began, waits)
            raise
        phase.passed(clock() - began, waits)

    def _of(self, write: AdmissionAttributes) -> Steps:
        # Each write passes here, and most plugins have nothing to do with it: they cost nothing this way.
        steps = write.steps
        if steps is not None and steps.chain is self:
            return steps
        if self.plugins != self._seen:
            self._seen = list(self.plugins)
            self._steps.clear()
            if self.metrics is not None:
                self.metrics.forget(self._phases)
            self._phases.clear()
        resource = write.info.group_resource
        steps = self._steps.get(resource)
        if steps is None:
            plugins = [one for one in self.plugins if one.resources is None or resource in one.resources]
            steps = self._steps[resource] = Steps(self, plugins, resource)
        write.steps = steps
        return steps


def _first_pending(steps: tuple[Step, ...], write: AdmissionAttributes) -> Awaitable[None] | None:
    """Run the steps up to the first that waits."""
    for step in steps:
        pending = step(write)
        if pending is not None:
            return pending
    return None


def _name(step: Step) -> str:
    plugin = getattr(step, "__self__", None)
    return plugin.name if isinstance(plugin, Plugin) else ""


def _acts(plugin: type[Plugin]) -> bool:
    """Whether there is anything that the plugin does."""
    return (plugin.admit, plugin.allocate, plugin.validate) != (Plugin.admit, Plugin.allocate, Plugin.validate)
