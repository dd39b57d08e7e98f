"""One sync of one Deployment: the state that it has read, and its requests.

Responses replace the cached objects, so that a second write of the same object is not a conflict (upstream's is, and
the next sync repeats it).
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from pilothouse.api.apps import DEPLOYMENTS, REPLICA_SETS, Deployment, DeploymentStatus, ReplicaSet
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound, has_cause
from pilothouse.controllers.workloads.deployment.annotations import (
    REVISION,
    ROLLBACK_TO,
    max_revision,
    new_replica_set_annotations,
    replicas_annotations,
)
from pilothouse.controllers.workloads.deployment.bounds import bounds_of, desired_replicas
from pilothouse.controllers.workloads.deployment.history import Rollback
from pilothouse.controllers.workloads.deployment.progress import (
    PROGRESSING,
    condition,
    has_deadline,
    with_condition,
)
from pilothouse.controllers.workloads.deployment.rolling import new_rs_new_replicas
from pilothouse.controllers.workloads.deployment.sizes import Resize, by_age, size_of
from pilothouse.controllers.workloads.deployment.status import describe
from pilothouse.controllers.workloads.deployment.template import equal_ignore_hash, new_set, set_name
from pilothouse.env import Env
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.owners import controller_of, new_controller_reference
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.template_hash import template_hash
from pilothouse.runtime import Cache, EventRecorder, object_reference

OnWrite = Callable[[str, str], None]
"""Called after each write with its group-resource and resourceVersion."""

_set_decoder = msgspec.json.Decoder(ReplicaSet)
_deployment_decoder = msgspec.json.Decoder(Deployment)
_encode = msgspec.json.Encoder().encode


class SyncContext:
    """The Deployment and its ReplicaSets, updated with every write."""

    def __init__(
        self,
        env: Env,
        client: Client,
        recorder: EventRecorder,
        cache: Cache[ReplicaSet],
        deployment: Deployment,
        raw: bytes,
        sets: Iterable[ReplicaSet],
        on_write: OnWrite,
    ) -> None:
        self._env = env
        self._client = client
        self._recorder = recorder
        self._cache = cache
        self._on_write = on_write
        self._raw = raw
        self.deployment = deployment
        ordered = sorted(sets, key=by_age)
        self._sets = {rs.metadata.name: rs for rs in ordered}
        self._raws = {name: cache.raw(f"{rs.metadata.namespace}/{name}") for name, rs in self._sets.items()}
        template = deployment.spec.template
        self._new = next((rs.metadata.name for rs in ordered if equal_ignore_hash(rs.spec.template, template)), None)

    # State

    @property
    def sets(self) -> list[ReplicaSet]:
        return list(self._sets.values())

    @property
    def new(self) -> ReplicaSet | None:
        """The ReplicaSet of the current template; the oldest one, if there are several."""
        return None if self._new is None else self._sets[self._new]

    @property
    def old(self) -> list[ReplicaSet]:
        """All others, the oldest first."""
        return [rs for name, rs in self._sets.items() if name != self._new]

    def record_event(self, type_: str, reason: str, message: str) -> None:
        self._recorder.event(object_reference(DEPLOYMENTS, self.deployment.metadata), type_, reason, message)

    # The new ReplicaSet

    async def sync_revision(self) -> None:
        """Set the annotations and the highest revision of the new ReplicaSet, if it exists, and the revision of the
        Deployment."""
        new = self.new
        if new is None:
            return
        deployment = self.deployment
        annotations = new_replica_set_annotations(
            deployment.metadata.annotations, new.metadata.annotations, max_revision(self.old) + 1
        )
        seconds = deployment.spec.min_ready_seconds
        if annotations is not None or new.spec.min_ready_seconds != seconds:
            changes = {"spec.minReadySeconds": _encode(seconds) if seconds else None}
            if annotations is not None:
                changes["metadata.annotations"] = _encode(annotations)
            record_decision(
                f"ReplicaSet {new.metadata.name} of the current template gets the Deployment's annotations and "
                f"minReadySeconds {seconds}, and revision {_revision(annotations or new.metadata.annotations)}"
            )
            await self._put_set(new.metadata.name, changes)
            return  # the Deployment's revision is for the next sync, as upstream
        message = f'Found new replica set "{new.metadata.name}"'
        await self._set_progressing_condition(new, "FoundNewReplicaSet", message, only_if_missing=True)

    async def create_new_replica_set(self) -> None:
        """Create the ReplicaSet of the template, with the size that the bounds allow."""
        deployment = self.deployment
        meta, spec = deployment.metadata, deployment.spec
        hashed = template_hash(spec.template, deployment.status.collision_count)
        name = set_name(meta.name, hashed)
        total = sum(map(size_of, self.old))
        replicas = new_rs_new_replicas(deployment, total, 0)
        annotations = new_replica_set_annotations(meta.annotations, {}, max_revision(self.old) + 1) or {}
        body = new_set(
            namespace=meta.namespace,
            name=name,
            template_hash=hashed,
            annotations=annotations | replicas_annotations(desired_replicas(deployment), bounds_of(deployment).surge),
            owner=new_controller_reference(meta, DEPLOYMENTS),
            selector=take_field(self._raw, "spec.selector") or b"{}",
            template=spec.template,
            replicas=replicas,
            min_ready_seconds=spec.min_ready_seconds,
        )
        record_decision(
            f"no ReplicaSet has the current template: creating {name} (revision {_revision(annotations)}) with "
            f"{replicas} of {desired_replicas(deployment)} replicas, maxSurge {bounds_of(deployment).surge}, others "
            f"have {total}"
        )
        try:
            created = await self._client.create(REPLICA_SETS.raw, body, meta.namespace)
        except AlreadyExists:
            await self._handle_already_exists(name)
            return
        except (ApiError, OSError) as error:
            if not has_cause(error, "NamespaceTerminating"):
                await self._handle_create_failure(name, error)
            raise
        new = self._store_replica_set(created)
        self._new = new.metadata.name
        if replicas > 0:
            self.record_event("Normal", "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {replicas}")
        await self._set_progressing_condition(new, "NewReplicaSetCreated", f'Created new replica set "{name}"')

    async def _handle_already_exists(self, name: str) -> None:
        """The name is taken, perhaps by our own ReplicaSet that the cache does not show yet."""
        meta = self.deployment.metadata
        # Upstream reads its cache, and fails with NotFound until that has the object.
        created = await self._client.get(REPLICA_SETS.raw, name, meta.namespace)
        existing = _set_decoder.decode(created)
        owner = controller_of(existing.metadata)
        if (
            owner is not None
            and owner.uid == meta.uid
            and equal_ignore_hash(existing.spec.template, self.deployment.spec.template)
        ):
            self._store_replica_set(created)
            self._new = name
            await self._set_revision(existing)
            return
        count = (self.deployment.status.collision_count or 0) + 1
        await self.write_status(replace(self.deployment.status, collision_count=count))
        raise NameTaken(f'replicasets.apps "{name}" already exists')

    async def _handle_create_failure(self, name: str, error: Exception) -> None:
        message = f'Failed to create new replica set "{name}": {error}'
        self.record_event("Warning", "ReplicaSetCreateError", message)
        if not has_deadline(self.deployment):
            return
        failed = condition(PROGRESSING, "False", "ReplicaSetCreateError", message, self._env.now())
        status = self.deployment.status
        try:
            await self.write_status(replace(status, conditions=with_condition(status.conditions, failed)))
        except (ApiError, OSError):
            return  # the error of the create is raised

    async def _set_progressing_condition(
        self, new: ReplicaSet, reason: str, message: str, *, only_if_missing: bool = False
    ) -> None:
        status = self.deployment.status
        conditions = status.conditions
        if has_deadline(self.deployment) and not (only_if_missing and find_condition(conditions, PROGRESSING)):
            conditions = with_condition(conditions, condition(PROGRESSING, "True", reason, message, self._env.now()))
        await self._set_revision(new, replace(status, conditions=conditions))

    async def _set_revision(self, new: ReplicaSet, status: DeploymentStatus | None = None) -> None:
        annotations = self.deployment.metadata.annotations
        revision = new.metadata.annotations.get(REVISION, "")
        if annotations.get(REVISION) != revision:
            annotations = {**annotations, REVISION: revision}
        await self.write_status(self.deployment.status if status is None else status, annotations)

    # Sizes

    async def resize(self, steps: Iterable[Resize]) -> bool:
        """Carry out the steps in order, up to the first failure. Whether any size changed."""
        deployment = self.deployment
        annotations_ = replicas_annotations(desired_replicas(deployment), bounds_of(deployment).surge)
        changed = False
        for step in steps:
            rs = self._sets[step.name]
            old = size_of(rs)
            annotations = rs.metadata.annotations | annotations_
            if old == step.size and not (step.annotate and annotations != rs.metadata.annotations):
                continue
            direction = "up" if old < step.size else "down"
            scaling = "noted as sized for this" if old == step.size else f"scaled {direction} from {old} to {step.size}"
            revision = _revision(rs.metadata.annotations)
            record_decision(f"ReplicaSet {step.name} (revision {revision}) is {scaling}: {step.reason}")
            changes = {"spec.replicas": _encode(step.size), "metadata.annotations": _encode(annotations)}
            await self._put_set(step.name, changes)
            if old != step.size:
                changed = True
                message = f"Scaled {direction} replica set {step.name} from {old} to {step.size}"
                self.record_event("Normal", "ScalingReplicaSet", message)
        return changed

    async def delete(self, to_delete: Iterable[ReplicaSet]) -> None:
        limit = self.deployment.spec.revision_history_limit
        for rs in to_delete:
            record_decision(
                f"deleting ReplicaSet {rs.metadata.name} (revision {_revision(rs.metadata.annotations)}), without "
                f"pods: {len(self.old)} old ones, revisionHistoryLimit {limit}"
            )
            try:
                await self._client.delete(REPLICA_SETS, rs.metadata.name, rs.metadata.namespace)
            except NotFound:
                continue  # deleted already

    # The Deployment

    async def write_status(self, status: DeploymentStatus, annotations: Mapping[str, str] | None = None) -> bool:
        """Write the status if it differs, with annotations as upstream. Whether the object has changed."""
        deployment = self.deployment
        changes: dict[str, bytes | None] = {"metadata.managedFields": None}
        if status != deployment.status:
            changes["status"] = _encode(status)
        if annotations is not None and annotations != deployment.metadata.annotations:
            changes["metadata.annotations"] = _encode(dict(annotations))
        if len(changes) == 1:
            return False
        record_decision(describe(deployment, status))
        await self._put_deployment(changes, "status")
        # A server that drops an unknown field of the status changes nothing, and sends no event.
        return self.deployment.metadata.resource_version != deployment.metadata.resource_version

    async def roll_back(self, to: Rollback) -> None:
        """Write the older template into the Deployment, and remove the annotation that requested it."""
        annotations = dict(self.deployment.metadata.annotations if to.annotations is None else to.annotations)
        annotations.pop(ROLLBACK_TO, None)
        changes: dict[str, bytes | None] = {
            "metadata.managedFields": None,
            "metadata.annotations": _encode(annotations),
        }
        if to.template is not None:
            changes["spec.template"] = to.template
        else:
            self.record_event(to.type, to.reason, to.message)
        record_decision(to.message)
        await self._put_deployment(changes)
        if to.template is not None:
            self.record_event(to.type, to.reason, to.message)

    # Requests

    async def _put_deployment(self, changes: Mapping[str, bytes | None], subresource: str = "") -> None:
        meta = self.deployment.metadata
        encoded = replace_fields(self._raw, changes)
        response = await self._client.update(
            DEPLOYMENTS.raw, meta.name, encoded, meta.namespace, subresource=subresource
        )
        self._raw = bytes(response)
        self.deployment = _deployment_decoder.decode(self._raw)
        self._on_write(DEPLOYMENTS.group_resource, self.deployment.metadata.resource_version)

    async def _put_set(self, name: str, changes: Mapping[str, bytes | None]) -> ReplicaSet:
        raw = self._raws[name]
        assert raw is not None, "what is written back whole is cached with its JSON"
        meta: ObjectMeta = self._sets[name].metadata
        encoded = replace_fields(raw, {**changes, "metadata.managedFields": None})
        return self._store_replica_set(await self._client.update(REPLICA_SETS.raw, name, encoded, meta.namespace))

    def _store_replica_set(self, response: msgspec.Raw) -> ReplicaSet:
        raw = bytes(response)
        replica_set = _set_decoder.decode(raw)
        self._sets[replica_set.metadata.name] = replica_set
        self._raws[replica_set.metadata.name] = raw
        self._on_write(REPLICA_SETS.group_resource, replica_set.metadata.resource_version)
        return replica_set


def _revision(annotations: Mapping[str, str]) -> str:
    return annotations.get(REVISION, "none")


class NameTaken(Exception):
    """Another object has the name that results from the template's hash. The next sync uses another hash."""
