"""The history of templates, kept as ControllerRevisions: for DaemonSets and StatefulSets.

Pure functions compute the data of a revision, which revisions are equal, and which are to be deleted. ``History``
claims, creates, renumbers and deletes them. Upstream: v1.36 ``pkg/controller/history/controller_history.go``,
``pkg/controller/daemon/update.go``.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, ControllerRevision
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.client import Client
from pilothouse.machinery.bounded_cache import TEMPLATE_BYTES, bounded_cache
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import compact_json
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.template_hash import fnv32, safe_text
from pilothouse.runtime import Cache, Claims, controller_index_key, object_key
from pilothouse.runtime.claims import CONTROLLER_INDEX

REVISIONS_KEPT_DECODED = 1024
LONGEST_OWNER = 223


def template_patch(template: bytes | msgspec.Raw) -> bytes:
    """The data of a revision: a strategic merge patch that restores this template.

    Keys are sorted and nothing is indented, as upstream writes it: kubectl compares bytes to find out whether there is
    anything to roll back.
    """
    value: dict[str, Any] = msgspec.json.decode(template)
    # Servers before v1.34 show "creationTimestamp":null; kubectl, like every other of today's programs, does not.
    _drop_nulls(value)
    value["$patch"] = "replace"
    return _written({"spec": {"template": value}})


def equal_revision(lhs: bytes | msgspec.Raw, rhs: bytes | msgspec.Raw) -> bool:
    """Whether two revisions are of the same template, however they are spelled.

    Upstream compares bytes. Controllers before v1.34 wrote ``"creationTimestamp":null`` into the template's metadata,
    which later ones treat as a difference; here it is ignored.
    """
    lhs_bytes, rhs_bytes = bytes(lhs), bytes(rhs)
    return lhs_bytes == rhs_bytes or _canonical(lhs_bytes) == _canonical(rhs_bytes)


@bounded_cache(REVISIONS_KEPT_DECODED, max_length=TEMPLATE_BYTES)
def _canonical(data: bytes) -> bytes:
    value = msgspec.json.decode(data)
    _drop_nulls(value)
    return _written(value)


def _drop_nulls(value: Any) -> None:
    """A null equals a missing field in an API object."""
    if isinstance(value, dict):
        for key in [key for key, element in value.items() if element is None]:
            del value[key]
        for element in value.values():
            _drop_nulls(element)
    elif isinstance(value, list):
        for element in value:
            _drop_nulls(element)


def _written(value: Any) -> bytes:
    return compact_json(_sorted(value)).encode()


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(element) for element in value]
    return value


def revision_hash(data: bytes | msgspec.Raw, collision_count: int) -> str:
    """The hash in the name of a revision with this data; another one for another count (``HashControllerRevision``)."""
    return safe_text(str(fnv32(bytes(data) + str(collision_count).encode())))


def revision_name(owner: str, suffix: str) -> str:
    """The name of a revision; the owner's name is truncated if necessary (``ControllerRevisionName``)."""
    return f"{owner[:LONGEST_OWNER]}-{suffix}"


def template_in(data: bytes | msgspec.Raw) -> bytes:
    """The template that the data of a revision restores."""
    template = take_field(data, "spec.template")
    return b"{}" if template is None else replace_fields(template, {"$patch": None})


def new_revision(
    *,
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owner: OwnerReference,
    data: bytes,
    number: int,
    namespace: str = "",
) -> bytes:
    """Upstream's bodies have the namespace for DaemonSets only."""
    metadata: dict[str, Any] = {"name": name, "labels": dict(labels)}
    if namespace:
        metadata["namespace"] = namespace
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [owner]
    return msgspec.json.encode(
        {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": msgspec.Raw(data),
            "revision": number,
        }
    )


def next_revision(revisions: Iterable[ControllerRevision]) -> int:
    """The next revision number."""
    return max((revision.revision for revision in revisions), default=0) + 1


def newest(revisions: Sequence[ControllerRevision]) -> ControllerRevision:
    """The one with the highest number, the last one of several."""
    latest = revisions[0]
    for revision in revisions[1:]:
        if revision.revision >= latest.revision:
            latest = revision
    return latest


def revisions_to_delete(
    old: Sequence[ControllerRevision], limit: int, live_hashes: frozenset[str], hash_label: str
) -> list[ControllerRevision]:
    """The revisions to delete, oldest first, so that ``limit`` old ones remain.

    A revision of an existing pod is not deleted, and does not count against the limit.
    """
    excess = len(old) - limit
    if excess <= 0:
        return []
    in_use = live_hashes - {""}  # a pod without the label has no revision
    to_delete = [
        revision
        for revision in sorted(old, key=lambda earlier: earlier.revision)
        if revision.metadata.labels.get(hash_label) not in in_use
    ]
    return to_delete[:excess]


class History:
    """The revisions of owners of one kind. ``revisions`` is a cache that keeps the JSON and has the index
    ``CONTROLLER_INDEX``."""

    def __init__(self, client: Client, revisions: Cache[ControllerRevision]) -> None:
        self._client = client
        self._revisions = revisions

    async def claim(
        self,
        owner: ObjectMeta,
        reference: OwnerReference,
        selector: Selector,
        read_live: Callable[[], Awaitable[ObjectMeta]],
        *,
        releasing: bool = True,
    ) -> list[ControllerRevision]:
        """The revisions that belong to the owner, after adoption and release, sorted by name.

        With ``releasing`` False, revisions that no longer match are neither released nor returned.
        """
        index = controller_index_key(owner.namespace, reference.kind, owner.name, owner.uid)
        controlled = self._revisions.by_index(CONTROLLER_INDEX, index)
        matches = selector.matches
        orphans = self._revisions.by_index(CONTROLLER_INDEX, owner.namespace)
        claimed = [revision for revision in controlled if matches(revision.metadata.labels)]
        to_claim = [revision for revision in controlled if releasing and not matches(revision.metadata.labels)]
        to_claim += [revision for revision in orphans if matches(revision.metadata.labels)]
        if not to_claim:
            return claimed
        claims = Claims(self._client, CONTROLLER_REVISIONS, owner, reference, selector, read_live=read_live)
        return claimed + await claims.claim(to_claim)

    async def create(self, namespace: str, body: bytes) -> ControllerRevision:
        """Create a ``new_revision``. Raises ``AlreadyExists`` if the name is taken."""
        record_decision("no ControllerRevision has the present template: one is created with it")
        return await self._client.create(CONTROLLER_REVISIONS, body, namespace)

    async def read(self, namespace: str, name: str) -> ControllerRevision:
        return await self._client.get(CONTROLLER_REVISIONS, name, namespace)

    async def update_revision_number(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        name = revision.metadata.name
        record_decision(
            f"ControllerRevision {name} has the present template: number {revision.revision} becomes {number}"
        )
        return await self._update_revision(revision, {"revision": msgspec.json.encode(number)})

    async def relabel(self, revision: ControllerRevision, labels: Mapping[str, str]) -> ControllerRevision:
        record_decision(f"ControllerRevision {revision.metadata.name} lacks labels of its hash: they are set")
        return await self._update_revision(revision, {"metadata.labels": msgspec.json.encode(dict(labels))})

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete the revision, without preconditions."""
        record_decision(
            f"ControllerRevision {revision.metadata.name} (number {revision.revision}) goes: no pod has it, and it is "
            "over "
            "revisionHistoryLimit or the same as another one"
        )
        await self._client.delete(CONTROLLER_REVISIONS, revision.metadata.name, revision.metadata.namespace)

    async def _update_revision(self, revision: ControllerRevision, changes: Mapping[str, bytes]) -> ControllerRevision:
        meta = revision.metadata
        key = object_key(meta)
        cached, raw = self._revisions.get(key), self._revisions.raw(key)
        if raw is None or cached is None or cached.metadata.resource_version != meta.resource_version:
            # It was written or read live in this sync, so it equals the server's version.
            live = await self._client.get(CONTROLLER_REVISIONS.raw, meta.name, meta.namespace)
            raw = bytes(live)
        new_body = replace_fields(raw, {**changes, "metadata.managedFields": None})
        return await self._client.update(CONTROLLER_REVISIONS, meta.name, new_body, meta.namespace)
