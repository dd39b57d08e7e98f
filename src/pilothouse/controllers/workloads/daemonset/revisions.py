"""The history of one DaemonSet: the current revision, and the requests to create or renumber it.

Upstream: ``constructHistory``, ``snapshot``, ``dedupCurHistories``, ``cleanupHistory``, v1.36 ``pkg/controller/daemon/
update.go``. A client performs a rollback; here an old revision just becomes the latest.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, DAEMON_SETS, ControllerRevision, DaemonSet
from pilothouse.api.core import PODS, Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import AlreadyExists
from pilothouse.controllers.shared.history import (
    History,
    equal_revision,
    new_revision,
    newest,
    next_revision,
    revisions_to_delete,
)
from pilothouse.controllers.workloads.daemonset.blueprint import Blueprint
from pilothouse.controllers.workloads.daemonset.pod_template import HASH_LABEL
from pilothouse.env import Log
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.template_hash import template_hash
from pilothouse.runtime import PodControl, RetryLater

DEFAULT_LIMIT = 10


class StaleCollisionCount(RetryLater):
    """The name of a new revision was taken, and the cache does not yet show how often that happened."""


class DaemonHistory:
    """Call ``construct_history`` first, then ``cleanup_history`` if the rest of the sync succeeded."""

    def __init__(
        self,
        client: Client,
        history: History,
        pod_control: PodControl,
        log: Log,
        *,
        on_write: Callable[[DaemonSet, Kind[Any], str], None],
    ) -> None:
        self._client = client
        self._history = history
        self._pod_control = pod_control
        self._log = log
        self._on_write = on_write

    async def construct_history(
        self,
        owner: DaemonSet,
        blueprint: Blueprint,
        selector: Selector,
        *,
        read_live: Callable[[], Awaitable[ObjectMeta]],
        pods: Callable[[], Awaitable[list[Pod]]],
    ) -> tuple[ControllerRevision, list[ControllerRevision]]:
        """The revision of the current template, created if necessary, and all others.

        ``pods`` claims and returns the DaemonSet's pods. If two revisions have the same template, the pods of the one
        to delete are relabeled first, so that they do not count as old.
        """
        meta = owner.metadata
        reference = new_controller_reference(meta, DAEMON_SETS)
        current: list[ControllerRevision] = []
        old: list[ControllerRevision] = []
        for revision in await self._history.claim(meta, reference, selector, read_live):
            labels = revision.metadata.labels
            if HASH_LABEL not in labels:
                # Its name, not a new hash, so that it cannot collide.
                revision = await self._history.relabel(revision, {**labels, HASH_LABEL: revision.metadata.name})
                self._record_write(owner, revision)
            (current if equal_revision(revision.data, blueprint.patch) else old).append(revision)
        number = next_revision(old)
        if not current:
            return await self._snapshot(owner, blueprint, number), old
        kept_revision = newest(current)
        if len(current) > 1:
            await self._dedup_cur_histories(kept_revision, current, owner, await pods())
        if kept_revision.revision < number:
            kept_revision = await self._history.update_revision_number(kept_revision, number)
            self._record_write(owner, kept_revision)
        return kept_revision, old

    async def _dedup_cur_histories(
        self,
        kept_revision: ControllerRevision,
        current: Sequence[ControllerRevision],
        owner: DaemonSet,
        pods: list[Pod],
    ) -> None:
        kept_hash = kept_revision.metadata.labels.get(HASH_LABEL, "")
        patch = merge_patch({"metadata": {"labels": {HASH_LABEL: kept_hash}}})
        for pod in pods:
            if pod.metadata.labels.get(HASH_LABEL) != kept_hash:
                record_decision(
                    f"{pod.metadata.name} has the template of {kept_revision.metadata.name}, and gets its hash as label"
                )
                written = await self._pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, patch)
                self._on_write(owner, PODS, written.metadata.resource_version)
        for revision in current:
            if revision.metadata.name != kept_revision.metadata.name:
                await self._history.delete(revision)

    async def _snapshot(self, owner: DaemonSet, blueprint: Blueprint, number: int) -> ControllerRevision:
        meta = owner.metadata
        revision_hash = template_hash(blueprint.template, owner.status.collision_count)
        name = f"{meta.name}-{revision_hash}"
        body = new_revision(
            namespace=meta.namespace,
            name=name,
            labels={**blueprint.template_labels, HASH_LABEL: revision_hash},
            annotations=meta.annotations,
            owner=new_controller_reference(meta, DAEMON_SETS),
            data=blueprint.patch,
            number=number,
        )
        try:
            created = await self._history.create(meta.namespace, body)
        except AlreadyExists:
            existing = await self._history.read(meta.namespace, name)
            if equal_revision(existing.data, blueprint.patch):
                return existing
            await self._count_collision(owner)
            raise
        self._record_write(owner, created)
        return created

    def _record_write(self, owner: DaemonSet, revision: ControllerRevision) -> None:
        self._on_write(owner, CONTROLLER_REVISIONS, revision.metadata.resource_version)

    async def _count_collision(self, owner: DaemonSet) -> None:
        """The name is taken by another template; the next hash includes another count."""
        meta = owner.metadata
        raw = await self._client.get(DAEMON_SETS.raw, meta.name, meta.namespace)
        live = msgspec.json.decode(raw, type=DaemonSet)
        if live.status.collision_count != owner.status.collision_count:
            raise StaleCollisionCount(
                f"found a stale collision count ({owner.status.collision_count}, expected "
                f"{live.status.collision_count}) of DaemonSet {meta.name!r} while processing; will retry until it is "
                "updated"
            )
        count = (live.status.collision_count or 0) + 1
        record_decision(f"the name of the next ControllerRevision is taken by another template: collisionCount {count}")
        status = replace_fields(take_field(raw, "status") or b"{}", {"collisionCount": msgspec.json.encode(count)})
        encoded = replace_fields(raw, {"status": status, "metadata.managedFields": None})
        response = await self._client.update(DAEMON_SETS, meta.name, encoded, meta.namespace, subresource="status")
        self._on_write(owner, DAEMON_SETS, response.metadata.resource_version)
        self._log.info("Found a hash collision for DaemonSet", v=2, name=meta.name, collision_count=count)

    async def cleanup_history(
        self, owner: DaemonSet, old: list[ControllerRevision], pods: Callable[[], list[Pod]]
    ) -> None:
        """Delete revisions beyond the limit that no pod has, not even a finished one that is being deleted."""
        limit = owner.spec.revision_history_limit
        limit = DEFAULT_LIMIT if limit is None else limit
        if len(old) <= limit:
            return
        live = frozenset(pod.metadata.labels.get(HASH_LABEL, "") for pod in pods())
        for revision in revisions_to_delete(old, limit, live, HASH_LABEL):
            await self._history.delete(revision)
