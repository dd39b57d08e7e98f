"""The expectations of a run: ``always``, ``eventually``, ``atEnd``, and the conditions of entries (``when``).

Rules about single objects, and rules that select objects by constant keys, are evaluated with every write of such an
object. Rules over all objects of a resource are evaluated a millisecond after a write, once for many writes of the same
instant. ``eventually`` rules and conditions are evaluated ten times a second if they read more than a hundred objects.
"""

import asyncio
import itertools
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from pilothouse.sim import Origin, Simulation
from pilothouse.sim.invariants import Invariant
from pilothouse.simulate.expressions import Expression, ExpressionError, Value, check_resource
from pilothouse.simulate.objects import ObservedObjects
from pilothouse.simulate.result import ExpectationOutcome, ExpectationResult, Failure, FailureKind
from pilothouse.simulate.scenario import Scenario, ScenarioError
from pilothouse.simulate.scenario.scalars import shown_seconds
from pilothouse.simulate.scenario.schema import EventuallyRule, Rule
from pilothouse.storage import Change
from pilothouse.why import Reference

_PAUSE = 0.001
_LONG_PAUSE = 0.1
_FEW = 100
"""Maximum number of objects for the shorter pause."""
_NAMESPACES_NAMED = 3
_EXPLAINED = 5
"""Objects that are examined until one has a reason."""


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule with its compiled expression and its path in the scenario."""

    kind: FailureKind
    path: str
    rule: Rule
    expression: Expression

    @property
    def name(self) -> str:
        """The name of the rule, or its path."""
        return self.rule.name or self.path.removeprefix("spec.expect.")


class Compiled(msgspec.Struct, frozen=True):
    """All expressions of a scenario."""

    rules: tuple[CompiledRule, ...]
    whens: dict[int, Expression]
    """By the number of the entry."""


def compile_all(scenario: Scenario) -> Compiled:
    """Compile the expressions. Raises ``ScenarioError`` with the line of the expression."""
    expect = scenario.spec.expect
    rules = []
    kinds: tuple[tuple[FailureKind, tuple[Rule, ...]], ...] = (
        ("always", expect.always),
        ("eventually", expect.eventually),
        ("atEnd", expect.at_end),
    )
    for kind, rules_of_kind in kinds:
        for number, rule in enumerate(rules_of_kind):
            path = f"spec.expect.{kind}[{number}]"
            rules.append(CompiledRule(kind, path, rule, _compiled(scenario, path, rule.cel, rule.for_each)))
    whens = {
        number: _compiled(scenario, f"spec.timeline[{number}].when", entry.when)
        for number, entry in enumerate(scenario.spec.timeline)
        if entry.when is not None
    }
    return Compiled(tuple(rules), whens)


def _compiled(scenario: Scenario, path: str, source: str, for_each: str = "") -> Expression:
    try:
        return Expression(source, for_each=for_each)
    except ExpressionError as error:
        raise ScenarioError(f"{scenario.where(path)}: {error}") from None


class _Obligation:
    """An ``eventually`` expectation that has not held yet."""

    def __init__(self, compiled: CompiledRule, since: float) -> None:
        self.compiled = compiled
        self.since = since
        self.last = Value(False, "not evaluated")
        rule = compiled.rule
        self.must_fail_first = isinstance(rule, EventuallyRule) and rule.again
        """Whether it must be false first (``again``)."""
        self.failing: dict[str, Value] | None = None
        """For a rule about single objects: the objects for which it is false, with the values; None for other rules."""


class Expectations(Invariant):
    """Checks the rules of one run. ``on_failure`` is called with the first failure."""

    def __init__(self, scenario: Scenario, compiled: Compiled, on_failure: Callable[[Failure], None]) -> None:
        self._scenario = scenario
        self._compiled = compiled
        self._on_failure = on_failure
        self._simulation: Simulation | None = None
        self._objects: ObservedObjects | None = None
        self._began = 0.0
        self._names: list[str] = []
        """The resources of the cluster, and those of CRDs that the scenario creates."""
        self._by_prefix: dict[str, list[tuple[str, CompiledRule]]] = {}
        self._waiting: dict[str, list[tuple[str, Expression, Callable[[], object]]]] = {}
        self._evaluated: set[str] = set()
        """Paths of rules that evaluated to true or false at least once."""
        self._last: dict[str, Value] = {}
        self._due: dict[str, tuple[CompiledRule, Change | None]] = {}
        self._due_conditions: dict[int, tuple[Expression, Callable[[], object]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._later_timer: asyncio.TimerHandle | None = None
        self._obligations: list[_Obligation] = []
        self._failed = False
        self.seconds: dict[str, float] = {}
        """By name of an ``eventually`` expectation: the time until it held, the longest of several."""
        self._kept_at: dict[str, float] = {}
        """By path of an ``eventually`` or ``atEnd`` expectation: when it held, the latest of several times."""
        self._violated: dict[str, tuple[float, str]] = {}
        self._failed_rule: CompiledRule | None = None
        self.notices: dict[str, None] = {}
        """Hints about expectations that are probably not as intended."""
        self._awaited = {rule.rule.after for rule in compiled.rules if isinstance(rule.rule, EventuallyRule)} - {""}
        """Names in ``after`` of entries that have not started."""

    # Start and end

    def begin(self, simulation: Simulation, defined: list[str], *, left_out: Collection[str] = ()) -> None:
        """Start checking. ``defined`` are the resources of CRDs that the scenario creates, ``left_out`` the names of
        entries that are not performed in this run. Raises ``ScenarioError``."""
        self._awaited.difference_update(left_out)
        self._simulation = simulation
        self._objects = ObservedObjects(simulation.store, simulation.plane.server.core.table)
        self._began = simulation.env.monotonic()
        self._names = names = [*self._objects.names, *defined]
        expressions = [(rule.path, rule.expression) for rule in self._compiled.rules]
        expressions += [
            (f"spec.timeline[{number}].when", condition) for number, condition in self._compiled.whens.items()
        ]
        for path, expression in expressions:
            try:
                expression.check_names(names)
            except ExpressionError as error:
                raise ScenarioError(f"{self._scenario.where(path)}: {error}") from None
            for name in (*expression.reads.resources, *([expression.for_each] if expression.for_each else [])):
                self._objects.follow(name)
        for rule in self._compiled.rules:
            if rule.kind == "always":
                for name in {*rule.expression.reads.resources, *filter(None, [rule.expression.for_each])}:
                    self._by_prefix.setdefault(self._objects.prefix_of(name), []).append((name, rule))
                self._evaluate_always(rule, None)
        self.start_entry("", self._began, self.true_expectations(""))

    def check_resource(self, path: str, name: str) -> None:
        """Raises ``ScenarioError`` if the cluster has no such resource."""
        try:
            check_resource(name, self._names)
        except ExpressionError as error:
            raise ScenarioError(f"{self._scenario.where(path)}: {error}") from None

    def true_expectations(self, after: str) -> frozenset[str]:
        """The paths of ``eventually`` expectations after this entry that are true now."""
        return frozenset(
            rule.path
            for rule in self._compiled.rules
            if isinstance(rule.rule, EventuallyRule)
            and rule.rule.after == after
            and self._value(rule.expression, rule.path).holds
        )

    def start_entry(self, name: str, began: float, active: frozenset[str]) -> None:
        """Start the expectations after the entry ``name``, which started at ``began``; an empty name is the start of
        the timeline. ``active`` are the paths of expectations that were true before."""
        self._awaited.discard(name)
        for rule in self._compiled.rules:
            if isinstance(rule.rule, EventuallyRule) and rule.rule.after == name:
                obligation = _Obligation(rule, began)
                if self._is_kept(obligation):
                    if rule.path in active:
                        when = f'the entry "{name}" began' if name else "the timeline began"
                        self.notices[
                            f"eventually {rule.name}: it was true already when {when}; "
                            "with again: true it must first be false"
                        ] = None
                else:
                    self._obligations.append(obligation)
                    asyncio.get_running_loop().call_at(began + rule.rule.within, self._expire, obligation)

    def when(self, number: int, then: Callable[[], object]) -> None:
        """Call ``then`` once, as soon as the condition of the entry is true."""
        expression = self._compiled.whens[number]
        if self._value(expression, f"spec.timeline[{number}].when").holds:
            then()
            return
        for name in expression.reads.resources:
            prefix = self._observed_objects.prefix_of(name)
            self._waiting.setdefault(prefix, []).append((name, expression, then))

    def finish(self) -> None:
        """Check at the end of the run: ``atEnd`` rules, expectations that did not become true, and rules that were
        never evaluated to true or false."""
        for obligation in self._obligations:
            if not self._is_fulfilled(obligation):
                self._fail_obligation(obligation, "the run ended before")
                return
        for rule in self._compiled.rules:
            if isinstance(rule.rule, EventuallyRule) and rule.rule.after in self._awaited:
                self._fail(rule, f'the run ended before the entry "{rule.rule.after}" began')
                return
        for rule in self._compiled.rules:
            if rule.kind == "atEnd":
                value = self._value(rule.expression, rule.path)
                if not value.holds:
                    self._fail(rule, f"it does not hold at the end{self._detail(rule, value)}", awaited=True)
                else:
                    self._kept_at[rule.path] = self._now() - self._began
            elif rule.kind == "always" and not rule.expression.for_each and rule.path not in self._evaluated:
                last = self._last.get(rule.path, Value(False))
                self._fail(rule, f"it was never true or false{self._detail(rule, last)}")

    def read_by_failed(self) -> list[tuple[str, frozenset[str] | None]]:
        """The resources that the expectation that failed the run reads, by storage prefix, each with the keys, or None
        for all objects."""
        if self._failed_rule is None:
            return []
        expression = self._failed_rule.expression
        resources = expression.reads.resources | ({expression.for_each: None} if expression.for_each else {})
        return [(self._observed_objects.prefix_of(name), keys) for name, keys in resources.items()]

    def results(self) -> tuple[ExpectationResult, ...]:
        """The outcome of each expectation so far. For ``always`` and ``eventually`` only the first violation is
        recorded; it ended the run."""
        return tuple(map(self._result, self._compiled.rules))

    def _result(self, rule: CompiledRule) -> ExpectationResult:
        at, message = self._violated.get(rule.path, (self._kept_at.get(rule.path), ""))
        pending = any(obligation.compiled is rule for obligation in self._obligations)
        outcome: ExpectationOutcome = "open"
        if rule.path in self._violated:
            outcome = "violated"
        elif rule.kind == "always":
            outcome = "held" if rule.path in self._evaluated else "open"
        elif at is not None and not pending:
            outcome = "held"
        return ExpectationResult(
            kind=rule.kind,
            name=rule.name,
            outcome=outcome,
            at=None if at is None or outcome == "open" else round(at, 3),
            message=message,
        )

    # Changes

    def committed(self, change: Change, _origin: Origin | None) -> None:
        """A write has become visible."""
        objects = self._objects
        if objects is None or self._failed:
            return
        observed = objects.committed(change)
        if observed is None:
            return
        prefix, key = observed
        for name, rule in self._by_prefix.get(prefix, ()):
            if rule.expression.for_each == name and change.type != "DELETED":
                self._evaluate_object(rule, key, change)
            if rule.expression.reads.concerns(name, key):
                if rule.expression.reads_all_objects or rule.expression.for_each:
                    self._due[rule.path] = (rule, change)
                    self._schedule()
                else:
                    self._evaluate_always(rule, change)
        for waiting in self._waiting.get(prefix, ()):
            name, expression, then = waiting
            if expression.reads.concerns(name, key):
                self._due_conditions[id(expression)] = (expression, then)
                self._schedule_later([expression])
        for obligation in self._obligations:
            self._changed_for(obligation, prefix, key)

    def _changed_for(self, obligation: _Obligation, prefix: str, key: str) -> None:
        objects, expression = self._observed_objects, obligation.compiled.expression
        if obligation.failing is not None:
            if objects.prefix_of(expression.for_each) == prefix:
                self._evaluate_one(obligation, key)
                if not obligation.failing:
                    self._schedule_later([])
            return
        names = (*expression.reads.resources, *filter(None, [expression.for_each]))
        if any(objects.prefix_of(name) == prefix for name in names):
            self._schedule_later([expression])

    def _evaluate_one(self, obligation: _Obligation, key: str) -> None:
        assert obligation.failing is not None, "it is about single objects"
        expression = obligation.compiled.expression
        about = self._observed_objects.of(expression.for_each).get(key)
        obligation.failing.pop(key, None)
        if about is not None:
            value = self._valued(expression, obligation.compiled.path, key, about)
            if not value.holds:
                obligation.failing[key] = value

    def _schedule_later(self, expressions: list[Expression]) -> None:
        if self._later_timer is None:
            names = {
                name for expression in expressions for name, keys in expression.reads.resources.items() if keys is None
            }
            names |= {expression.for_each for expression in expressions if expression.for_each}
            count = sum(len(self._observed_objects.of(name)) for name in names)
            pause = _PAUSE if count <= _FEW else _LONG_PAUSE
            self._later_timer = asyncio.get_running_loop().call_later(pause, self._evaluate_later)

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._evaluate_due)

    def _evaluate_due(self) -> None:
        self._timer = None
        due, self._due = self._due, {}
        for rule, change in due.values():
            if self._failed:
                return
            self._evaluate_always(rule, change)

    def _evaluate_later(self) -> None:
        self._later_timer = None
        conditions, self._due_conditions = self._due_conditions, {}
        for expression, then in conditions.values():
            if self._value(expression, "spec.timeline").holds:
                for prefix, waiting in self._waiting.items():
                    self._waiting[prefix] = [entry for entry in waiting if entry[1] is not expression]
                then()
        self._obligations = [obligation for obligation in self._obligations if not self._is_kept(obligation)]

    # Evaluation

    @property
    def _observed_objects(self) -> ObservedObjects:
        assert self._objects is not None, "the run has begun"
        return self._objects

    def _now(self) -> float:
        assert self._simulation is not None, "the run has begun"
        return self._simulation.env.monotonic()

    def _value(self, expression: Expression, path: str) -> Value:
        """The value of the expression. For a rule about each object: true if it is true for all objects, else the first
        error or counterexample."""
        if not expression.for_each:
            return self._valued(expression, path)
        for key, about in list(self._observed_objects.of(expression.for_each).items()):
            value = self._valued(expression, path, key, about)
            if not value.holds:
                return _about(expression, key, value)
        return Value(True)

    def _valued(self, expression: Expression, path: str, key: str = "", about: Any = None) -> Value:
        try:
            return expression.evaluate(self._observed_objects, key, about)
        except ExpressionError as error:
            raise ScenarioError(f"{self._scenario.where(path)}: {error}") from None

    def _evaluate_object(self, rule: CompiledRule, key: str, change: Change) -> None:
        about = self._observed_objects.of(rule.expression.for_each).get(key)
        try:
            value = rule.expression.evaluate(self._observed_objects, key, about)
        except ExpressionError as error:
            self._report_error(rule, error)
            return
        if not value.is_missing:
            self._evaluated.add(rule.path)
        if not value.holds and not value.is_missing:
            self._fail(rule, f"it does not hold for {rule.expression.for_each} {key}{_detail(value)}", change, about)

    def _evaluate_always(self, rule: CompiledRule, change: Change | None) -> None:
        try:
            value = self._value(rule.expression, rule.path)
        except ScenarioError as error:
            self._report_error(rule, error)
            return
        self._last[rule.path] = value
        if value.is_missing:
            return  # the object does not exist yet, or no longer
        self._evaluated.add(rule.path)
        if not value.holds and not (rule.expression.for_each and NO_KEY in value.error):
            self._fail(rule, f"it does not hold{_detail(value)}", change)

    def _is_fulfilled(self, obligation: _Obligation) -> bool:
        expression = obligation.compiled.expression
        if expression.for_each and not expression.reads.resources:
            if obligation.failing is None:
                obligation.failing = {}
                for key in list(self._observed_objects.of(expression.for_each)):
                    self._evaluate_one(obligation, key)
            key, value = next(iter(obligation.failing.items()), ("", Value(True)))
            obligation.last = value if value.holds else _about(expression, key, value)
        else:
            obligation.last = self._value(expression, obligation.compiled.path)
        if obligation.must_fail_first:
            if obligation.last.holds:
                return False
            obligation.must_fail_first = False
        return obligation.last.holds

    def _is_kept(self, obligation: _Obligation) -> bool:
        if not self._is_fulfilled(obligation):
            return False
        name = obligation.compiled.rule.name
        self._kept_at[obligation.compiled.path] = self._now() - self._began
        if name:
            self.seconds[name] = max(self.seconds.get(name, 0.0), round(self._now() - obligation.since, 3))
        return True

    def _expire(self, obligation: _Obligation) -> None:
        if obligation in self._obligations and not self._failed and not self._is_fulfilled(obligation):
            self._fail_obligation(obligation, "it did not hold in time")

    def _fail_obligation(self, obligation: _Obligation, reason: str) -> None:
        rule = obligation.compiled.rule
        assert isinstance(rule, EventuallyRule), "only these have a limit"
        since = f"after {rule.after}" if rule.after else "after the start"
        limit = f"within {shown_seconds(rule.within)} {since} ({shown_seconds(obligation.since - self._began)})"
        if obligation.must_fail_first:
            reason = "it was never false, as again: true demands"
        message = f"{reason}: {limit}{self._detail(obligation.compiled, obligation.last)}"
        self._fail(obligation.compiled, message, awaited=not obligation.must_fail_first)

    def _state_explained(self, rule: CompiledRule) -> str:
        """Why the object that a rule waits for is in its state: the first with a reason, if the rule is about each
        object or names them by their keys."""
        expression, simulation = rule.expression, self._simulation
        if simulation is None:
            return ""
        named = ((name, key) for name, keys in expression.reads.resources.items() for key in sorted(keys or ()))
        if expression.for_each:
            objects = self._observed_objects.of(expression.for_each)
            named = (
                (expression.for_each, key)
                for key, about in list(objects.items())
                if not self._valued(expression, rule.path, key, about).holds
            )
        for name, key in itertools.islice(named, _EXPLAINED):
            group, resource, _rest = self._observed_objects.prefix_of(name).split("/")
            namespace, _slash, object_name = key.rpartition("/")
            reference = Reference(f"{resource}.{group}" if group else resource, namespace, object_name)
            if why := simulation.state_explained(reference):
                return why
        return ""

    def _detail(self, rule: CompiledRule, value: Value) -> str:
        """The error of the value. For an object that does not exist, also the objects of its name in other
        namespaces: the namespace is often forgotten."""
        _error, _colon, missing = value.error.partition(f"{NO_KEY}: ")
        name = missing.rpartition("/")[2]
        if not value.is_missing:
            return _detail(value)
        for resource, keys in rule.expression.reads.resources.items():
            objects = self._observed_objects.of(resource)
            if keys is None or missing not in keys or missing in objects:
                continue
            elsewhere = sorted(key for key in objects if key.partition("/")[2] == name)[:_NAMESPACES_NAMED]
            if not elsewhere and "/" not in missing and any("/" in key for key in objects):
                return f"{_detail(value)}; the keys of {resource} are NAMESPACE/NAME"
            if elsewhere:
                namespaces = ", ".join(key.partition("/")[0] for key in elsewhere)
                return f"{_detail(value)}; there is one in {namespaces}: {resource}['{elsewhere[0]}']"
        return _detail(value)

    def _report_error(self, rule: CompiledRule, error: Exception) -> None:
        self._failed = True
        text = str(error)
        position = self._scenario.where(rule.path)
        context = {
            "message": text,
            "exception": ScenarioError(text if text.startswith(position) else f"{position}: {text}"),
        }
        asyncio.get_running_loop().call_exception_handler(context)

    def _fail(
        self,
        rule: CompiledRule,
        message: str,
        change: Change | None = None,
        about: Any = None,
        *,
        awaited: bool = False,
    ) -> None:
        """Record the failure. ``about`` is the object of a rule about each, if it is known; ``awaited``: the state of
        an object is the reason, rather than ``change``."""
        if self._simulation is None:
            return
        self._violated.setdefault(rule.path, (self._now() - self._began, message))
        if self._failed:
            return
        self._failed, self._failed_rule = True, rule
        text = f"{rule.rule.message}: {message}" if rule.rule.message else message
        why = ""
        if change is not None:
            previous, self._simulation.checked = self._simulation.checked, change
            why = self._simulation.explained()
            self._simulation.checked = previous
        elif awaited:
            why = self._state_explained(rule)
        self._on_failure(
            Failure(
                kind=rule.kind,
                name=rule.name,
                message="\n  ".join(
                    [text, rule.expression.source.strip(), *rule.expression.values(self._observed_objects, about)]
                ),
                at=self._now() - self._began,
                why=why.strip(),
            )
        )


NO_KEY = "no such key"


def _about(expression: Expression, key: str, value: Value) -> Value:
    return Value(False, f"{expression.for_each} {key}: {value.error or 'it is false'}")


def _detail(value: Value) -> str:
    return f": {value.error}" if value.error else ""
