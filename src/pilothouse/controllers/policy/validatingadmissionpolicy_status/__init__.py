"""Checks the expressions of ValidatingAdmissionPolicies against the types that the policies are about, and says in
their status what does not fit: a misspelt field, a number that is compared with a text.

Promises: a new generation of a policy is looked at once, and ``status.observedGeneration`` says so. Expressions of
validations and of their messages are checked against at most ten types. What is found are warnings: the policy does
what it does all the same.

Not promised: that it is looked at again when one of the types changes.

Files: ``decide`` which types, and the status; ``types`` what an API server says of them; ``checking`` the expressions;
``controller`` the wiring. docs/controllers/validatingadmissionpolicy_status.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.admissionregistration import VALIDATING_ADMISSION_POLICIES
from pilothouse.machinery.flags import INT32, Flag
from pilothouse.runtime.descriptor import Descriptor, FlagSpec, Watch, any_object


class PolicyStatusOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How many policies are looked at together."""

    workers: int = 5


DESCRIPTOR = Descriptor(
    name="validatingadmissionpolicy-status-controller",
    client_name="validatingadmissionpolicy-status-controller",
    options=PolicyStatusOptions,
    flags=(
        FlagSpec(
            field="workers",
            flag=Flag(
                "concurrent-validating-admission-policy-status-syncs",
                INT32,
                5,
                "The number of validatingadmissionpolicy-status-controller workers that are allowed to sync "
                "concurrently.",
            ),
        ),
    ),
    watches=(Watch(kind=VALIDATING_ADMISSION_POLICIES, wakes=any_object),),
    factory="pilothouse.controllers.policy.validatingadmissionpolicy_status.controller:build",
)
