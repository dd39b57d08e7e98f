"""Type-checks the CEL expressions of ValidatingAdmissionPolicies and reports errors in their status, such as a
misspelt field or a comparison of a number with a string. API servers accept such expressions, and fail when
they evaluate them.

Behaviour: each generation of a policy is checked once, and ``status.observedGeneration`` is set. Expressions of
validations and their messages are checked against at most ten types. The results are warnings; they do not affect the
evaluation of the policy.

Not guaranteed: that it is checked again when one of the types changes.

docs/controllers/validatingadmissionpolicy_status.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.admissionregistration import VALIDATING_ADMISSION_POLICIES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object


class PolicyStatusOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 5


DESCRIPTOR = Descriptor(
    name="validatingadmissionpolicy-status-controller",
    client_name="validatingadmissionpolicy-status-controller",
    options=PolicyStatusOptions,
    flags=(
        flag_spec(
            "workers",
            "concurrent-validating-admission-policy-status-syncs",
            INT32,
            5,
            "The number of validatingadmissionpolicy-status-controller workers that are allowed to sync concurrently.",
        ),
    ),
    watches=(Watch(kind=VALIDATING_ADMISSION_POLICIES, predicate=any_object),),
    package=__name__,
)
