"""The replays detect faulty controllers: with each modification, one of the checks fails."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.tables import cases
from tests.traces import test_order, test_replays, test_startup

from pilothouse.client import Client, merge_patch, strategic_merge_patch
from pilothouse.controllers.cleanup.garbage_collector import live
from pilothouse.controllers.cleanup.namespace.controller import NamespaceController
from pilothouse.controllers.shared.own_writes import OwnWrites
from pilothouse.controllers.workloads.replicaset import controller as replicaset
from pilothouse.runtime import EventRecorder, InformerFactory, batches, claims

Wrong = Callable[[pytest.MonkeyPatch], None]
Replay = Callable[..., None]


@pytest.fixture(autouse=True)
def _play_anew() -> Iterator[None]:
    test_replays.played.cache_clear()
    yield
    test_replays.played.cache_clear()


def replaced(owner: Any, name: str, value: Any) -> Wrong:
    return lambda patch: patch.setattr(owner, name, value)


def deleting(**instead: Any) -> Wrong:
    """Every DELETE with other options."""
    delete = Client.delete

    async def wrong(self: Client, *args: Any, **options: Any) -> Any:
        return await delete(self, *args, **{**options, **instead})

    return replaced(Client, "delete", wrong)


async def all_at_once(
    count: int, _initial: int, work: Callable[[int], Awaitable[None]]
) -> tuple[int, BaseException | None]:
    return await batches.slow_start(count, count, work)


async def unread(self: OwnWrites, _kind: Any, _key: str, owner: Any) -> Any:
    return owner


def silent(self: EventRecorder, *_args: Any) -> None:
    return None


def unaware(self: InformerFactory, *_args: Any) -> None:
    return None


@cases(
    "wrong, replay",
    {
        "adoption by JSON merge patch": (
            replaced(claims, "strategic_merge_patch", merge_patch),
            test_replays.test_pod_adoption_release_and_orphaning,
        ),
        "adoption without reading the owner": (
            replaced(OwnWrites, "read_owner", unread),
            test_order.test_owner_is_read_once_before_adoptions_and_not_before_releases,
        ),
        "pods created without slow start": (
            replaced(replicaset, "slow_start", all_at_once),
            test_order.test_creates_use_slow_start,
        ),
        "pods created without slow start under a quota": (
            replaced(replicaset, "slow_start", all_at_once),
            test_order.test_creates_stop_at_the_first_rejected_batch,
        ),
        "pods deleted with a grace period": (
            deleting(grace_period_seconds=0),
            test_replays.test_replica_set_scale_and_deletion,
        ),
        "garbage deleted without preconditions": (
            deleting(uid="", resource_version=""),
            test_replays.test_garbage_collection,
        ),
        "garbage deleted without resourceVersion precondition": (
            deleting(resource_version=""),
            test_replays.test_foreground_deletion_of_an_owner_tree,
        ),
        "finalizers removed by strategic merge patch": (
            replaced(live, "merge_patch", strategic_merge_patch),
            test_replays.test_garbage_collection,
        ),
        "no events": (replaced(EventRecorder, "event", silent), test_replays.test_replica_set_scale_and_deletion),
        "no namespace conditions": (
            replaced(NamespaceController, "_update_conditions", lambda _self, held, _found: _at_once(held)),
            test_replays.test_namespace_deletion,
        ),
        "watches of the garbage collector's own": (
            replaced(InformerFactory, "existing", unaware),
            test_startup.test_every_resource_is_watched_once_by_the_manager,
        ),
        "lease requests without a time limit": (
            replaced(Client, "limited", lambda self, _seconds: self),
            test_startup.test_lease_is_created_and_renewed,
        ),
    },
)
def test_modified_controller_is_detected(wrong: Wrong, replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong(monkeypatch)
    # Anything that the replay raises will do: some wrongs break its premises before the comparison.
    with pytest.raises((AssertionError, ValueError)):
        replay(*([1] if "seed" in replay.__code__.co_varnames[: replay.__code__.co_argcount] else []))


async def _at_once(value: Any) -> Any:
    return value


def test_unmodified_wrapper_is_not_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper that changes nothing is not noticed."""
    deleting()(monkeypatch)
    test_replays.test_garbage_collection(1)
