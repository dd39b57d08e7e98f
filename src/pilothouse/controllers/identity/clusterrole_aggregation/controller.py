"""Syncs every aggregated role on every event of any role."""

import msgspec

from pilothouse.api.rbac import CLUSTER_ROLES, ClusterRole
from pilothouse.client import apply_patch
from pilothouse.client.errors import UnsupportedMediaType
from pilothouse.controllers.identity.clusterrole_aggregation import DESCRIPTOR
from pilothouse.controllers.identity.clusterrole_aggregation.decide import desired_rules, rules_to_apply
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import SelectorError
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, TerminalError

WORKERS = 5
FIELD_MANAGER = "clusterrole-aggregation-controller"
AGGREGATED = "aggregated"


def _is_aggregated(role: ClusterRole) -> tuple[str, ...]:
    return () if role.aggregation_rule is None else ("",)


class ClusterRoleAggregation(ManagedController):
    """Keys are names of roles."""

    def __init__(self, context: ControllerContext) -> None:
        roles = context.informer(CLUSTER_ROLES, indexes={AGGREGATED: _is_aggregated})
        super().__init__(context, DESCRIPTOR.name, workers=WORKERS, queue_name="ClusterRoleAggregator")
        self._client = context.client
        self._roles = roles.cache
        on_any_event(roles, lambda _role: self._enqueue_all())

    def _enqueue_all(self) -> None:
        # There are few, so all are synced, as upstream.
        for role in self._roles.by_index(AGGREGATED, ""):
            self.queue.add(role.metadata.name)

    async def reconcile(self, key: str) -> Requeue | None:
        role = self._roles.get(key)
        if role is None:
            return None
        try:
            rules = desired_rules(role, self._roles.list())
        except SelectorError as error:
            raise TerminalError(f"the aggregation rule of {key} cannot be used: {error}") from error
        if rules is None:
            return None
        raw = self._roles.raw(key)
        record_decision(
            f"the roles that ClusterRole {key} aggregates come to {len(rules)} rules; it has {len(role.rules)}"
        )
        try:
            await self._client.patch(
                CLUSTER_ROLES,
                key,
                apply_patch(rules_to_apply(role.metadata, rules)),
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except UnsupportedMediaType:
            # A server without server-side apply: feature gate off, or v1.15 and older.
            assert raw is not None, "the informer keeps roles as they came"
            await self._client.update(CLUSTER_ROLES, key, replace_fields(raw, {"rules": msgspec.json.encode(rules)}))
        return None


build = ClusterRoleAggregation
