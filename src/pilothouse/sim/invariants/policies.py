"""Invariants of the status of ValidatingAdmissionPolicies: it belongs to the current policy, and never goes back to
that of an earlier generation.

Checked against the committed objects after every write; the test has the expected warnings of expressions.
"""

from collections.abc import Callable

from pilothouse.api.admissionregistration import VALIDATING_ADMISSION_POLICIES, Validation
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_PREFIX = f"{VALIDATING_ADMISSION_POLICIES.group}/{VALIDATING_ADMISSION_POLICIES.resource}/"
CONTROLLER = "validatingadmissionpolicy-status-controller"


class _Warning(View, frozen=True):
    field_ref: str = ""


class _TypeChecking(View, frozen=True):
    expression_warnings: tuple[_Warning, ...] = ()


class _Status(View, frozen=True):
    observed_generation: int = 0
    type_checking: _TypeChecking | None = None


class _Spec(View, frozen=True):
    validations: tuple[Validation, ...] = ()


class _Policy(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class PolicyStatuses(Invariant):
    """All ValidatingAdmissionPolicies, if the validity of an expression does not depend on the matched resources.

    ``reports`` counts the status writes, and ``warned`` those that found something.
    """

    def __init__(self, is_wrong: Callable[[str], bool]) -> None:
        self._is_wrong = is_wrong
        self._policies = Objects(_PREFIX, _Policy)
        self.reports = 0
        self.warned = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        name, old, new = self._policies.follow(change) or ("", None, None)
        if new is None:
            return
        generation, observed = new.metadata.generation, new.status.observed_generation
        if observed > generation:
            raise Violation(
                f"policy {name}: generation {observed} was observed before it existed: the policy is at {generation}"
            )
        if old is not None and old.metadata.uid == new.metadata.uid:
            earlier = old.status.observed_generation
            if observed < earlier:
                raise Violation(f"policy {name}: {observed} was observed after {earlier}")
        if origin is not None and origin.controller == CONTROLLER:
            if observed != generation:
                raise Violation(f"policy {name}: the status is of {observed} while the policy is at {generation}")
            self.reports += 1
            self.warned += bool(self._check(name, new))

    def _check(self, name: str, policy: _Policy) -> list[str]:
        """The fields with warnings, which must be those with invalid expressions."""
        checking = policy.status.type_checking
        reported = [] if checking is None else [warning.field_ref for warning in checking.expression_warnings]
        invalid_fields = []
        for number, validation in enumerate(policy.spec.validations):
            texts = {"expression": validation.expression, "messageExpression": validation.message_expression}
            invalid_fields += [
                f"spec.validations[{number}].{field}" for field, text in texts.items() if self._is_wrong(text)
            ]
        if reported != invalid_fields:
            raise Violation(f"policy {name}: invalid are {invalid_fields}, and warnings are about {reported}")
        return reported

    def check_final_state(self) -> None:
        """At the end every generation was observed."""
        for name, policy in self._policies.items():
            generation, observed = policy.metadata.generation, policy.status.observed_generation
            if observed != generation:
                raise Violation(f"policy {name}: generation {generation} was never observed, only {observed}")
            self._check(name, policy)
