"""Checks a policy when it was added or changed."""

from pilothouse.api.admissionregistration import VALIDATING_ADMISSION_POLICIES, ValidatingAdmissionPolicy
from pilothouse.cel.limits import Busy
from pilothouse.client import apply_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.policy.validatingadmissionpolicy_status import DESCRIPTOR, PolicyStatusOptions
from pilothouse.controllers.policy.validatingadmissionpolicy_status.checking import Checker
from pilothouse.controllers.policy.validatingadmissionpolicy_status.decide import (
    FIELD_MANAGER,
    NamedResource,
    TypeName,
    configuration,
    expressions,
    is_due,
    named_in,
    type_of_params,
    types_to_check,
    warning,
)
from pilothouse.controllers.policy.validatingadmissionpolicy_status.types import ANYTHING, Schemas
from pilothouse.machinery.api_resources import Discovery
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater

QUEUE = "validatingadmissionpolicy-status"


class PolicyStatusController(ManagedController):
    """See the package. Keys are names of policies."""

    def __init__(self, context: ControllerContext) -> None:
        policies = context.informer(VALIDATING_ADMISSION_POLICIES)
        super().__init__(
            context, DESCRIPTOR.name, workers=context.options_as(PolicyStatusOptions).workers, queue_name=QUEUE
        )
        assert context.rest_mapper is not None, "controllers are built with a REST mapper"
        self._context = context
        self._mapper = context.rest_mapper
        self._policies = policies.cache
        policies.add_handler(
            on_add=lambda policy, _initial: self.queue.add(policy.metadata.name),
            on_update=lambda _old, policy: self.queue.add(policy.metadata.name),
        )

    async def reconcile(self, key: str) -> Requeue | None:
        policy = self._policies.get(key)
        if policy is None or not is_due(policy):
            return None
        try:
            body = configuration(policy, await self._warnings(policy))
        except Busy as error:
            raise RetryLater("too many expensive expressions") from error
        record_decision(f"the expressions of policy {key} were checked against the types that it matches")
        try:
            await self._context.client.patch(
                VALIDATING_ADMISSION_POLICIES,
                key,
                apply_patch(body),
                subresource="status",
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except (Conflict, NotFound) as error:
            # The cache is old. It will get the current policy, or its deletion.
            raise RetryLater(str(error)) from error
        return None

    async def _warnings(self, policy: ValidatingAdmissionPolicy) -> list[tuple[str, str]]:
        spec, schemas = policy.spec, Schemas(self._context)
        desired = type_of_params(spec)
        # Its definition may be created after the policy: any type until then.
        params = await schemas.of(desired) or ANYTHING if desired is not None else None
        checkers = []
        discovery = await self._discovery(policy)
        for name in types_to_check(spec, lambda resource: kinds_of(discovery, resource)):
            schema = await schemas.of(name)
            if schema is not None:
                checker = Checker(schema, params, self._context.expressions)
                await checker.declare(spec.variables)
                checkers.append((name, checker))
        warnings = []
        for path, expression in expressions(spec):
            errors = [(name, await checker.error_in(expression)) for name, checker in checkers]
            errors = [(name, error) for name, error in errors if error]
            if errors:
                warnings.append((path, warning(errors)))
        return warnings

    async def _discovery(self, policy: ValidatingAdmissionPolicy) -> Discovery:
        """Discovery; read again if the policy names an unknown resource."""
        discovery = await self._mapper.discovery()
        constraints = policy.spec.match_constraints
        names = [name for rule in (constraints.resource_rules if constraints else ()) for name in named_in(rule)]
        if all(kinds_of(discovery, name) for name in names):
            return discovery
        self._mapper.reset()
        return await self._mapper.discovery()


def kinds_of(discovery: Discovery, named_resource: NamedResource) -> list[TypeName]:
    """The kinds that are served under a name, without a group of any group, as upstream's mapper."""
    return [
        TypeName(resource.group, resource.version, resource.kind)
        for resource in discovery.resources()
        if (resource.name, resource.version) == (named_resource.resource, named_resource.version)
        and named_resource.group in ("", resource.group)
    ]


build = PolicyStatusController
