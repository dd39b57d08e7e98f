"""The admission chain: ordered plugins between decoding and validation (apiserver ``pkg/admission``).

A plugin can mutate an object (``admit``), allocate for it (``allocate``: cluster IPs, ports) or validate it
(``validate``). First all ``admit`` run, in order; then the name is generated, all ``allocate`` run, then all
``validate``. A method that never waits returns None; one that has to wait returns an awaitable.
"""

import copy
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.metrics.admission import AdmissionMetrics, Phase, StepType
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.request_info import NO_QUERY, Query
from pilothouse.apiserver.resources import ResourceInfo

if TYPE_CHECKING:
    from pilothouse.apiserver.options import DeleteOptions


class AdmissionAttributes(msgspec.Struct):
    """One write, as passed to plugins. ``obj`` is None for a deletion, ``old`` is None for a creation. A write to a
    subresource has objects of its kind (a Binding, a Scale)."""

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
    query: Query = NO_QUERY
    """The query of the request, with the options of a create or update."""
    delete_options: "DeleteOptions | None" = None
    """The options of a deletion."""
    steps: "Steps | None" = None
    """The plugins' methods for this resource; set by the chain."""
    reinvocations: "dict[str, Reinvocation] | None" = None
    """What the plugins that call policies and webhooks have to call again, by plugin."""
    should_reinvoke: bool = False
    """Whether such a plugin has changed the object. All plugins are then called a second time."""
    requested: Object | None = None
    """The requested values of the fields that ``allocate`` sets, saved by the plugin for a retry of the write."""

    def new_reinvocation(self, plugin: str) -> "Reinvocation":
        """What a plugin that begins to call policies or webhooks has to call again."""
        if self.reinvocations is None:
            self.reinvocations = {}
        reinvocation = self.reinvocations[plugin] = Reinvocation()
        return reinvocation

    def reinvocation(self, plugin: str) -> "Reinvocation | None":
        """What the plugin has to call again, if it was called."""
        return None if self.reinvocations is None else self.reinvocations.get(plugin)

    @property
    def pod(self) -> Object | None:
        """The pod that is created or updated; None for other resources and for subresources of pods."""
        info = self.info
        return self.obj if info.resource == "pods" and not info.group and not self.subresource else None


class Reinvocation:
    """The policies or webhooks with ``reinvocationPolicy: IfNeeded`` that a plugin has called for one write
    (``reinvocationcontext.go``). Keys are hashable."""

    def __init__(self) -> None:
        self._invoked: dict[Any, None] = {}
        self.required: set[Any] = set()
        """What is called again."""
        self._output: Object | None = None

    def invoked(self, key: Any) -> None:
        """It was called, and is called again if the object changes afterwards."""
        self._invoked[key] = None

    def require(self) -> None:
        """The object has changed: call again what was called."""
        self.required.update(self._invoked)
        self._invoked.clear()

    def end(self, obj: Object) -> None:
        """The end of the first calls. Without anything to call again, the object is not compared later."""
        if self._invoked or self.required:
            self._output = copy.deepcopy(obj)

    def begin_again(self, obj: Object) -> None:
        """The beginning of the second calls: ``require`` if another plugin has changed the object."""
        if self._invoked and obj != self._output:
            self.require()


def new_forbidden(write: AdmissionAttributes, reason: str) -> errors.StatusError:
    """``NewForbidden``: the 403 of a plugin, with ``generateName`` if the name has not been generated yet (apiserver
    ``pkg/admission/errors.go``, v0.36)."""
    meta = {} if write.obj is None else write.obj.get("metadata") or {}
    name = write.name or meta.get("name") or meta.get("generateName") or "Unknown"
    return errors.forbidden(write.info, name, reason)


class Plugin:
    """The base class of plugins; its methods do nothing. A plugin rejects a write by raising ``StatusError``."""

    name: str = ""
    """Upstream's name, used as label in metrics; empty for a plugin that upstream does not have."""
    resources: frozenset[str] | None = None
    """The resources that the plugin handles (``pods``, ``ingresses.networking.k8s.io``); None: all. It is not called
    for others."""

    def reads_updates(self, resource: str) -> bool:
        """Whether the plugin reads or changes the objects in updates of the resource (named as in ``resources``). If
        False, it reads only user and names, and can be called for an update with ``AdmissionAttributes`` without
        objects."""
        return True

    def admit(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        """Reject the write, or change ``write.obj`` in place."""
        return None

    def reinvoke(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        """Called after all plugins, if a policy or webhook has changed the object (``reinvocation.go``)."""
        return self.admit(write)

    def allocate(self, write: AdmissionAttributes) -> None:
        """Reject the write, or set allocated fields of ``write.obj``. A generated name is already set."""

    def validate(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        """Reject the write, or accept it unchanged."""
        return None


Step = Callable[[AdmissionAttributes], Awaitable[None] | None]


class Steps:
    """The ``admit``, ``allocate`` and ``validate`` methods that are called for writes of one resource, and their
    metrics by operation."""

    __slots__ = ("admit", "admit_phases", "allocate", "chain", "reads_updates", "validate", "validate_phases")

    def __init__(self, chain: "Chain", plugins: Sequence[Plugin], resource: str) -> None:
        self.chain = chain
        self.admit: tuple[Step, ...] = tuple(
            plugin.admit for plugin in plugins if type(plugin).admit is not Plugin.admit
        )
        self.allocate = tuple(plugin.allocate for plugin in plugins if type(plugin).allocate is not Plugin.allocate)
        self.validate: tuple[Step, ...] = tuple(
            plugin.validate for plugin in plugins if type(plugin).validate is not Plugin.validate
        )
        self.reads_updates = any(plugin.reads_updates(resource) for plugin in plugins if _has_steps(type(plugin)))
        self.admit_phases: dict[str, Phase] = {}
        self.validate_phases: dict[str, Phase] = {}


class Chain:
    """Calls the plugins in order. ``plugins`` may be changed at any time."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        self.plugins = list(plugins)
        self._plugins_of_steps: list[Plugin] = []
        self._steps: dict[str, Steps] = {}
        self.metrics: AdmissionMetrics | None = None
        """None if metrics are not served."""
        self._phases: list[Phase] = []

    def reads_updates(self, write: AdmissionAttributes) -> bool:
        """Whether any plugin reads or changes the object in an update of this resource."""
        return self._steps_of(write).reads_updates

    async def admit(self, write: AdmissionAttributes) -> None:
        """Call ``admit`` of all plugins."""
        steps = self._steps_of(write)
        if self.metrics is not None:
            pending = self._run(self.metrics, self._admit_phase(self.metrics, steps, write), steps.admit, write)
            if pending is not None:
                await pending
        else:
            for step in steps.admit:
                pending = step(write)
                if pending is not None:
                    await pending
        if write.should_reinvoke:
            await self._reinvoke(write)

    async def _reinvoke(self, write: AdmissionAttributes) -> None:
        write.should_reinvoke = False
        resource = write.info.group_resource
        for plugin in list(self.plugins):
            if plugin.resources is None or resource in plugin.resources:
                pending = plugin.reinvoke(write)
                if pending is not None:
                    await pending

    def allocate(self, write: AdmissionAttributes) -> None:
        """Call ``allocate`` of all plugins."""
        for step in self._steps_of(write).allocate:
            step(write)

    async def validate(self, write: AdmissionAttributes) -> None:
        """Call ``validate`` of all plugins."""
        steps = self._steps_of(write)
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

    def admit_without_waiting(self, write: AdmissionAttributes) -> bool:
        """Call all plugins for a write whose object none of them reads (``reads_updates``). Returns False if a plugin
        would have to wait; the write must then be admitted with ``admit``, ``allocate`` and ``validate``. Raises the
        plugins' ``StatusError``."""
        steps, metrics = self._steps_of(write), self.metrics
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
        """Call the steps and record metrics. If one has to wait, the rest is returned as an awaitable."""
        clock = metrics.clock
        started_at, index = clock(), 0
        try:
            for index, step in enumerate(steps):  # the handler below reads the index of the rejecting plugin
                pending = step(write)
                if pending is not None:
                    return self._run_remaining(phase, clock, started_at, steps[index:], index, pending, write)
        except errors.StatusError:
            phase.rejected(index, clock() - started_at)
            raise
        phase.passed(clock() - started_at)
        return None

    async def _run_remaining(
        self,
        phase: Phase,
        clock: Callable[[], float],
        started_at: float,
        steps: tuple[Step, ...],
        first_index: int,
        pending: Awaitable[None] | None,
        write: AdmissionAttributes,
    ) -> None:
        """Await ``pending`` of the first of these steps, which has index ``first_index`` in the phase, then call the
        others."""
        waits: dict[int, float] = {}
        index = first_index
        try:
            for index, step in enumerate(steps, start=first_index):
                if index > first_index:
                    pending = step(write)
                if pending is not None:
                    started = clock()
                    await pending
                    waits[index] = clock() - started
        except errors.StatusError:
            phase.rejected(index, clock() - started_at, waits)
            raise
        phase.passed(clock() - started_at, waits)

    def _steps_of(self, write: AdmissionAttributes) -> Steps:
        # Called for every write: plugins that do not handle the resource must cost nothing.
        steps = write.steps
        if steps is not None and steps.chain is self:
            return steps
        if self.plugins != self._plugins_of_steps:
            self._plugins_of_steps = list(self.plugins)
            self._steps.clear()
            if self.metrics is not None:
                self.metrics.forget(self._phases)
            self._phases.clear()
        resource = write.info.group_resource
        steps = self._steps.get(resource)
        if steps is None:
            plugins = [plugin for plugin in self.plugins if plugin.resources is None or resource in plugin.resources]
            steps = self._steps[resource] = Steps(self, plugins, resource)
        write.steps = steps
        return steps


def _first_pending(steps: tuple[Step, ...], write: AdmissionAttributes) -> Awaitable[None] | None:
    """Call the steps up to the first that has to wait."""
    for step in steps:
        pending = step(write)
        if pending is not None:
            return pending
    return None


def _name(step: Step) -> str:
    plugin = getattr(step, "__self__", None)
    return plugin.name if isinstance(plugin, Plugin) else ""


def _has_steps(plugin: type[Plugin]) -> bool:
    """Whether the plugin overrides any of the three methods."""
    return (plugin.admit, plugin.allocate, plugin.validate) != (Plugin.admit, Plugin.allocate, Plugin.validate)
