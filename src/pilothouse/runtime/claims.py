"""Adopts and releases the dependents of an owner (upstream's ``controller_ref_manager.go``).

``classify`` is the pure rule; ``Claims`` applies it for one owner during one reconcile. Mirrors
``pkg/controller/controller_ref_manager.go`` of v1.36. Pods, ReplicaSets and ControllerRevisions are claimed alike.
"""

import enum
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta, OwnerReference
from pilothouse.client import Client, Patch, strategic_merge_patch
from pilothouse.client.errors import ApiError, Invalid, NotFound
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import controller_of
from pilothouse.machinery.times import format_time
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)


class Claim(enum.Enum):
    """What to do with one candidate."""

    IGNORE = "ignore"
    """Not ours, or it must not be changed now."""
    KEEP = "keep"
    """Owned, and still matching."""
    ADOPT = "adopt"
    """It has no controller and matches."""
    RELEASE = "release"
    """Owned, and no longer matching."""


def classify(meta: ObjectMeta, *, owner_uid: str, owner_deleting: bool, matches: bool) -> Claim:
    """The decision. An owner that is being deleted neither adopts nor releases; an object that is being deleted is not
    adopted."""
    controller = controller_of(meta)
    if controller is not None:
        if controller.uid != owner_uid:
            return Claim.IGNORE
        if matches:
            return Claim.KEEP
        return Claim.IGNORE if owner_deleting else Claim.RELEASE
    if owner_deleting or not matches or meta.deletion_timestamp is not None:
        return Claim.IGNORE
    return Claim.ADOPT


class ClaimError(Exception):
    """Some candidates could not be adopted or released. Nothing may be done with the others either in this
    reconcile."""

    def __init__(self, errors: list[Exception]) -> None:
        # apimachinery's Aggregate prints one error as itself and several in brackets.
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        self.errors = errors


class CannotAdopt(Exception):
    """The live owner has another uid than the cached one, or is being deleted."""


class Claims(Generic[T]):
    """Claims for one owner, during one reconcile.

    ``read_live`` reads the owner's metadata from the API server; it is called at most once, before the first adoption.
    ``on_write(meta)`` is called with the response to each patch (for the consistency store).
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        owner: ObjectMeta,
        reference: OwnerReference,
        selector: Selector,
        *,
        read_live: Callable[[], Awaitable[ObjectMeta]],
        on_write: Callable[[ObjectMeta], None] | None = None,
        finalizers: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self._kind: Kind[Object] = kind.read_as(Object)
        self._owner = owner
        self._reference = reference
        self._selector = selector
        self._read_live = read_live
        self._on_write = on_write
        self._finalizers = finalizers
        self._checked = False
        self._adoption_error: Exception | None = None

    async def claim(self, candidates: Iterable[T], *, predicate: Callable[[T], bool] | None = None) -> list[T]:
        """Adopt and release as needed; returns the candidates that belong to the owner, in their order.

        ``predicate`` is a further condition for keeping and adopting. Raises ``ClaimError`` when an adoption or a
        release failed, after trying all.
        """
        claimed: list[T] = []
        errors: list[Exception] = []
        deleting = self._owner.deletion_timestamp is not None
        for candidate in candidates:
            meta = candidate.metadata
            matches = self._selector.matches(meta.labels) and (predicate is None or predicate(candidate))
            decision = classify(meta, owner_uid=self._reference.uid, owner_deleting=deleting, matches=matches)
            try:
                if decision is Claim.KEEP:
                    claimed.append(candidate)
                elif decision is Claim.ADOPT:
                    if await self._adopt(meta):
                        claimed.append(candidate)
                elif decision is Claim.RELEASE:
                    await self._release(meta)
            except (ApiError, OSError, CannotAdopt) as error:
                errors.append(error)
        if errors:
            raise ClaimError(errors)
        return claimed

    async def _adopt(self, meta: ObjectMeta) -> bool:
        await self._check_owner(meta)
        record_decision(f"adopting {meta.name}: it has no controller and matches the selector {self._selector}")
        try:
            response = await self._patch(meta, adoption_patch(meta.uid, self._reference, self._finalizers))
        except NotFound:
            return False
        self._record_write(response.metadata)
        return True

    async def _release(self, meta: ObjectMeta) -> None:
        record_decision(f"releasing {meta.name}: it no longer matches the selector {self._selector}")
        try:
            response = await self._patch(meta, release_patch(meta.uid, self._reference.uid, self._finalizers))
        except (NotFound, Invalid):
            # Deleted, or (422) replaced by an object with another uid, or without owner references: nothing to release.
            return
        self._record_write(response.metadata)

    async def _patch(self, meta: ObjectMeta, patch: Patch) -> Object:
        return await self._client.patch(self._kind, meta.name, patch, meta.namespace)

    async def _check_owner(self, child: ObjectMeta) -> None:
        if not self._checked:
            self._checked = True
            try:
                self._adoption_error = _adoption_error_of(self._owner, self._reference.kind, await self._read_live())
            except (ApiError, OSError) as error:
                self._adoption_error = error
        if self._adoption_error is not None:
            name = f"{child.namespace}/{child.name}" if child.namespace else child.name
            raise CannotAdopt(
                f"can't adopt {self._kind.kind} {name} ({child.uid}): {self._adoption_error}"
            ) from self._adoption_error

    def _record_write(self, meta: ObjectMeta) -> None:
        if self._on_write is not None:
            self._on_write(meta)


def _adoption_error_of(cached: ObjectMeta, kind: str, live: ObjectMeta) -> Exception | None:
    name = f"{cached.namespace}/{cached.name}"
    if live.uid != cached.uid:
        return CannotAdopt(f"original {kind} {name} is gone: got uid {live.uid}, wanted {cached.uid}")
    if live.deletion_timestamp is not None:
        return CannotAdopt(f"{name} has just been deleted at {format_time(live.deletion_timestamp)}")
    return None


def adoption_patch(uid: str, reference: OwnerReference, finalizers: tuple[str, ...] = ()) -> Patch:
    """Add the controller reference. The uid in the body is a precondition: for another object with that name the
    response is 409."""
    metadata: dict[str, Any] = {
        "ownerReferences": [
            {
                "apiVersion": reference.api_version,
                "kind": reference.kind,
                "name": reference.name,
                "uid": reference.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "uid": uid,
    }
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return strategic_merge_patch({"metadata": metadata})


def release_patch(uid: str, owner_uid: str, finalizers: tuple[str, ...] = ()) -> Patch:
    """Take the owner's reference away."""
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return strategic_merge_patch({"metadata": metadata})


def controller_index(meta: ObjectMeta) -> tuple[str, ...]:
    """Index values for finding candidates: ``<namespace>/<kind>/<name>/<uid>`` of the controller, or for orphans the
    namespace. Claim from the union of both (``controller_index_key``, and the namespace)."""
    controller = controller_of(meta)
    if controller is None:
        return (meta.namespace,)
    return (controller_index_key(meta.namespace, controller.kind, controller.name, controller.uid),)


def controller_index_key(namespace: str, kind: str, name: str, uid: str) -> str:
    """The index value of everything that this owner controls."""
    return f"{namespace}/{kind}/{name}/{uid}"


def index_by_controller(obj: Cached) -> tuple[str, ...]:
    """``controller_index`` as an index function for any kind. Always the same function, so that controllers share the
    index."""
    return controller_index(obj.metadata)


CONTROLLER_INDEX = "controller"
"""The name under which ``index_by_controller`` is added."""
