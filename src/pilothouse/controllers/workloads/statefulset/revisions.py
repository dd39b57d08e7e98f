"""The history of one StatefulSet: the current revision and the update revision.

Upstream: ``getStatefulSetRevisions`` and ``truncateHistory``, v1.36
``pkg/controller/statefulset/stateful_set_control.go``.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.api.apps import STATEFUL_SETS, ControllerRevision, StatefulSet
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import AlreadyExists
from pilothouse.controllers.shared.conflicts import BACKOFF, retry_on_conflict
from pilothouse.controllers.shared.history import (
    History,
    equal_revision,
    new_revision,
    next_revision,
    revision_hash,
    revision_name,
    template_in,
)
from pilothouse.controllers.workloads.statefulset.blueprint import Blueprint
from pilothouse.machinery.bounded_cache import TEMPLATE_BYTES, bounded_cache
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.semantics.pod_defaults import default_template

HASH_LABEL = "controller.kubernetes.io/hash"
DEFAULT_LIMIT = 10


class Revisions(msgspec.Struct, frozen=True):
    """The two that matter, and how often a name was taken so far."""

    current: ControllerRevision
    update: ControllerRevision
    collision_count: int


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """By number, then by age, then by name."""

    def rank(revision: ControllerRevision) -> tuple[int, float, str]:
        created = revision.metadata.creation_timestamp
        return revision.revision, created.timestamp() if created is not None else 0.0, revision.metadata.name

    return sorted(revisions, key=rank)


def equal_with_defaults(lhs: bytes | msgspec.Raw, rhs: bytes | msgspec.Raw) -> bool:
    """Whether two revisions have the same template with today's defaults.

    An upgraded server sets fields that older revisions lack; without this every StatefulSet would then roll for nothing
    (gate ``StatefulSetSemanticRevisionComparison``).
    """
    return _filled_in(bytes(lhs)) == _filled_in(bytes(rhs))


@bounded_cache(1024, max_length=TEMPLATE_BYTES)
def _filled_in(data: bytes) -> bytes:
    template: dict[str, Any] = msgspec.json.decode(template_in(data))
    _drop_empty(template)
    default_template(template)
    return msgspec.json.encode(template, order="sorted")


def _drop_empty(value: Any) -> None:
    """Null and an empty list equal a missing field; an empty object may be a selector that matches everything."""
    if isinstance(value, dict):
        for key in [key for key, element in value.items() if element is None or element == []]:
            del value[key]
        for element in value.values():
            _drop_empty(element)
    elif isinstance(value, list):
        for element in value:
            _drop_empty(element)


def revisions_to_truncate(
    revisions: Sequence[ControllerRevision], live: frozenset[str], limit: int
) -> list[ControllerRevision]:
    """The revisions to delete, oldest first, so that ``limit`` unused ones remain. If the limit is negative: none."""
    if limit < 0:
        return []
    past = [revision for revision in revisions if revision.metadata.name not in live]
    return past[: max(0, len(past) - limit)]


class StatefulHistory:
    """Call ``claim_revisions`` first, then ``get_stateful_set_revisions``; ``truncate`` at the end
    of every sync, also of a failed one."""

    def __init__(
        self, history: History, *, compare_by_meaning: bool, on_write: Callable[[StatefulSet, ControllerRevision], None]
    ) -> None:
        self._history = history
        self._compare_by_meaning = compare_by_meaning
        self._on_write = on_write

    async def claim_revisions(
        self, owner: StatefulSet, selector: Selector, read_live: Callable[[], Awaitable[ObjectMeta]]
    ) -> list[ControllerRevision]:
        """All revisions of the owner in their order, after adopting those that match and have no controller."""
        meta = owner.metadata
        reference = new_controller_reference(meta, STATEFUL_SETS)
        return in_order(await self._history.claim(meta, reference, selector, read_live, releasing=False))

    async def get_stateful_set_revisions(
        self, owner: StatefulSet, blueprint: Blueprint, revisions: Sequence[ControllerRevision]
    ) -> Revisions:
        """Make the revision of the template the latest, or create it. The current revision is that of the status; if it
        was deleted or there was none, it is the update revision."""
        collisions = owner.status.collision_count or 0
        newest = revisions[-1] if revisions else None
        number = next_revision(revisions)
        equal = [revision for revision in revisions if equal_revision(revision.data, blueprint.patch)]
        update: ControllerRevision
        if newest is not None and equal and equal_revision(newest.data, equal[-1].data):
            update = newest
        elif equal:
            update = await self._renumber(owner, equal[-1], number)
        elif newest is not None and self._compare_by_meaning and equal_with_defaults(newest.data, blueprint.patch):
            update = newest
        else:
            update, collisions = await self._create(owner, blueprint, number, collisions)
        current = next(
            (candidate for candidate in revisions if candidate.metadata.name == owner.status.current_revision), update
        )
        return Revisions(current, update, collisions)

    async def _renumber(self, owner: StatefulSet, revision: ControllerRevision, number: int) -> ControllerRevision:
        """After a rollback the revision of the older template becomes the newest."""
        meta = revision.metadata

        async def write(attempt: int) -> ControllerRevision:
            current = revision if attempt == 0 else await self._history.read(meta.namespace, meta.name)
            return (
                current if current.revision == number else await self._history.update_revision_number(current, number)
            )

        renumbered = await retry_on_conflict(write, BACKOFF)
        self._on_write(owner, renumbered)
        return renumbered

    async def _create(
        self, owner: StatefulSet, blueprint: Blueprint, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        meta = owner.metadata
        while True:
            suffix = revision_hash(blueprint.patch, collisions)
            name = revision_name(meta.name, suffix)
            body = new_revision(
                name=name,
                labels={**blueprint.template_labels, HASH_LABEL: suffix},
                annotations=meta.annotations,
                owner=new_controller_reference(meta, STATEFUL_SETS),
                data=blueprint.patch,
                number=number,
            )
            try:
                created = await self._history.create(meta.namespace, body)
            except AlreadyExists:
                # Created by an earlier sync that the cache does not show yet, or by an earlier StatefulSet.
                existing = await self._history.read(meta.namespace, name)
                if equal_revision(existing.data, blueprint.patch):
                    return existing, collisions
                collisions += 1
            else:
                self._on_write(owner, created)
                return created, collisions

    async def truncate(self, owner: StatefulSet, revisions: Sequence[ControllerRevision], live: Iterable[str]) -> None:
        """Delete unused revisions over the limit."""
        limit = owner.spec.revision_history_limit
        for revision in revisions_to_truncate(revisions, frozenset(live), DEFAULT_LIMIT if limit is None else limit):
            await self._history.delete(revision)
