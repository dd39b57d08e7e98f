"""Quota statuses, and events that enqueue.

Rows mirror ``TestSyncResourceQuota``, ``TestAddQuota`` and ``TestGetQuotableResources`` in
``pkg/controller/resourcequota/resource_quota_controller_test.go`` and ``TestHasResourcesChanged`` in
``pkg/quota/v1/install/update_filter_test.go`` of v1.36.
"""

import asyncio
import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.controllers.remains import remains
from tests.tables import cases

from pilothouse.api.core import (
    ContainerStatus,
    ModifyVolumeStatus,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ResourceRequirements,
    Service,
    ServiceSpec,
)
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.policy.resourcequota.counting import CONCURRENCY, Counter
from pilothouse.controllers.policy.resourcequota.monitors import quotable_resources
from pilothouse.controllers.policy.resourcequota.replenishment import (
    has_claim_quota_changed,
    has_pod_quota_changed,
    has_service_quota_changed,
)
from pilothouse.controllers.policy.resourcequota.usage import NewStatus, is_urgent, may_miss_objects, new_status, raised
from pilothouse.env import Env
from pilothouse.machinery.api_resources import Discovery, GroupVersion, Resource
from pilothouse.machinery.quantities import Quantity
from pilothouse.runtime import Cache
from pilothouse.semantics.pod_amounts import amounts
from pilothouse.semantics.quota import PodEvaluator, standing_evaluators

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
FULL = {"cpu": "3", "memory": "100Gi", "pods": "5"}
NONE = {"cpu": "0", "memory": "0", "pods": "0"}


def quota(
    hard: dict[str, str], status: dict[str, str] | None = None, used: dict[str, str] | None = None
) -> ResourceQuota:
    return ResourceQuota(
        spec=ResourceQuotaSpec(hard=hard), status=ResourceQuotaStatus(hard=status or {}, used=used or {})
    )


@cases(
    "known, counted, expected",
    {
        "the first sync": (quota(FULL), NONE, (FULL, NONE)),
        "new limits": (quota({"cpu": "4"}, {"cpu": "3"}, {"cpu": "0"}), {"cpu": "0"}, ({"cpu": "4"}, {"cpu": "0"})),
        "no change": (quota({"cpu": "4"}, {"cpu": "4"}, {"cpu": "0"}), {"cpu": "0"}, None),
        "equal quantity in another notation": (
            quota({"cpu": "4"}, {"cpu": "4000m"}, {"cpu": "1"}),
            {"cpu": "1000m"},
            None,
        ),
        "usage decreased": (
            quota({"pods": "9"}, {"pods": "9"}, {"pods": "3"}),
            {"pods": "2"},
            ({"pods": "9"}, {"pods": "2"}),
        ),
        "usage increased": (
            quota({"pods": "9"}, {"pods": "9"}, {"pods": "1"}),
            {"pods": "2"},
            ({"pods": "9"}, {"pods": "2"}),
        ),
        "no usage calculated: limits are still reported": (quota({"pods": "1"}), {}, ({"pods": "1"}, {})),
        "usage of one of two resources calculated": (
            quota({"pods": "1", "configmaps": "1"}),
            {"configmaps": "0"},
            ({"pods": "1", "configmaps": "1"}, {"configmaps": "0"}),
        ),
        "usage that was not calculated is kept": (
            quota({"pods": "2", "secrets": "3"}, {"pods": "2", "secrets": "3"}, {"pods": "1", "secrets": "1"}),
            {"secrets": "2"},
            ({"pods": "2", "secrets": "3"}, {"pods": "1", "secrets": "2"}),
        ),
        "removed limit": (
            quota({"pods": "2"}, {"pods": "2", "cpu": "1"}, {"pods": "1", "cpu": "1"}),
            {"pods": "1"},
            ({"pods": "2"}, {"pods": "1"}),
        ),
        "usage without limit is not reported": (
            quota({"pods": "2"}, {"pods": "2"}, {"pods": "1"}),
            {"pods": "1", "cpu": "9"},
            None,
        ),
        "no limits": (quota({}), {}, None),
    },
)
def test_sync_resource_quota(
    known: ResourceQuota, counted: dict[str, str], expected: tuple[dict[str, str], dict[str, str]] | None
) -> None:
    wanted = None if expected is None else NewStatus(*expected)
    assert new_status(known, amounts(counted)) == wanted


@cases(
    "counted, expected",
    {
        "usage decreased": ({"pods": "1"}, True),
        "usage increased": ({"pods": "3"}, False),
        "usage unchanged": ({"pods": "2"}, False),
        "unknown usage": ({"pods": "2", "cpu": "1"}, False),
        "added limit": ({"pods": "2", "configmaps": "0"}, True),
    },
)
def test_usage_may_be_incomplete(counted: dict[str, str], expected: bool) -> None:
    known = quota({"pods": "9", "cpu": "9", "configmaps": "9"}, {"pods": "9", "cpu": "9"}, {"pods": "2"})
    assert may_miss_objects(known, amounts(counted)) is expected


def test_usage_is_raised_and_never_lowered() -> None:
    known = quota(FULL, FULL, {"pods": "2", "memory": "3Gi"})
    counted = amounts({"pods": "1", "memory": "4Gi", "cpu": "1"})
    assert raised(known, counted) == amounts({"pods": "2", "memory": "4Gi", "cpu": "1"})


@cases(
    "known, expected",
    {
        "no status": (quota({"cpu": "4"}), True),
        "limits without usage": (quota({"cpu": "4"}, {"cpu": "4"}), True),
        "extended resource without usage": (
            quota({"requests.example/foobars.example.com": "4"}, {"requests.example/foobars.example.com": "4"}),
            True,
        ),
        "different limits": (quota({"cpu": "4"}, {"cpu": "6"}, {"cpu": "0"}), True),
        "resource without evaluator": (quota({"foobars.example.com": "4"}, {"foobars.example.com": "4"}), False),
        "up to date": (quota({"cpu": "4"}, {"cpu": "4"}, {"cpu": "0"}), False),
    },
)
def test_priority_of_quotas(known: ResourceQuota, expected: bool) -> None:
    assert is_urgent(known, standing_evaluators()) is expected


NO_RESOURCES: dict[str, str] = {}
"""A container that has a status, but no resources in it."""


def pod(phase: str = "Running", *, status: Any = None, deadline: int | None = None, **meta: Any) -> Pod:
    resources = ResourceRequirements(requests=status) if status else None
    statuses = () if status is None else (ContainerStatus(name="foo", resources=resources),)
    return Pod(
        metadata=ObjectMeta(name="p", **meta),
        spec=PodSpec(active_deadline_seconds=deadline),
        status=PodStatus(phase=phase, container_statuses=statuses),
    )


DELETED: dict[str, Any] = {"deletion_timestamp": NOW - datetime.timedelta(seconds=60)}


@cases(
    "old, new, expected",
    {
        "no relevant change": (pod(status={"cpu": "2"}), pod(status={"cpu": "2"}), False),
        "status resources increased": (pod(status={"cpu": "2"}), pod(status={"cpu": "3"}), True),
        "status resources added": (pod(status=NO_RESOURCES), pod(status={"cpu": "3"}), True),
        "status resources removed": (pod(status={"cpu": "3"}), pod(status=NO_RESOURCES), True),
        "first status of the container": (pod(), pod(status={"cpu": "3"}), False),
        "status of the container removed": (pod(status={"cpu": "3"}), pod(), False),
        "activeDeadlineSeconds added": (pod(), pod(deadline=5), True),
        "activeDeadlineSeconds changed": (pod(deadline=5), pod(deadline=3), False),
        "Pending to Running": (pod("Pending"), pod("Running"), False),
        "succeeded": (pod(), pod("Succeeded"), True),
        "Failed to Succeeded": (pod("Failed"), pod("Succeeded"), False),
        "grace period over": (pod(), pod(**DELETED, deletion_grace_period_seconds=30), True),
        "grace period not over": (pod(), pod(**DELETED, deletion_grace_period_seconds=90), False),
    },
)
def test_pod_updates_that_enqueue(old: Pod, new: Pod, expected: bool) -> None:
    assert has_pod_quota_changed(old, new, NOW) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ClusterIP", "NodePort", True),
        ("NodePort", "LoadBalancer", True),
        ("LoadBalancer", "ClusterIP", True),
        ("ClusterIP", "ExternalName", False),
        ("NodePort", "NodePort", False),
    ],
)
def test_service_updates_that_enqueue(old: str, new: str, expected: bool) -> None:
    before, after = (Service(spec=ServiceSpec(type=kind)) for kind in (old, new))
    assert has_service_quota_changed(before, after, NOW) is expected


def claim(**status: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(status=PersistentVolumeClaimStatus(**status))


@cases(
    "new, expected",
    {
        "no relevant status": (claim(), False),
        "allocatedResources": (claim(allocated_resources={"storage": "1Gi"}), True),
        "currentVolumeAttributesClassName": (claim(current_volume_attributes_class_name="fast"), True),
        "modifyVolumeStatus": (
            claim(modify_volume_status=ModifyVolumeStatus(target_volume_attributes_class_name="fast")),
            True,
        ),
    },
)
def test_claim_updates_that_enqueue(new: PersistentVolumeClaim, expected: bool) -> None:
    assert has_claim_quota_changed(claim(), new, NOW) is expected


ALL = ("create", "delete", "list", "watch")


def resource(group: str, name: str, *verbs: str, namespaced: bool = True) -> Resource:
    return Resource(group, "v1", name, name.title(), namespaced, verbs)


def test_quotable_resources() -> None:
    core = (
        resource("", "pods", *ALL, "get"),
        resource("", "events", *ALL),
        resource("", "bindings", "create"),
        resource("", "nodes", *ALL, namespaced=False),
        resource("", "readonly", "list", "watch"),
    )
    versions = (GroupVersion("", "v1", core), GroupVersion("apps", "v1", (resource("apps", "deployments", *ALL),)))
    assert [key.resource for key in quotable_resources(Discovery(versions))] == ["pods", "deployments"]
    assert quotable_resources(Discovery(())) == {}


async def test_usage_of_objects_deleted_during_a_recount_is_not_cached(env: Env) -> None:
    """A long recount yields; the usage of an object is cached until its event, which may arrive in between."""
    cache: Cache[Pod] = Cache("pods")
    for number in range(2 * CONCURRENCY):
        meta = ObjectMeta(namespace="ns", name=f"p{number:03}", uid=f"uid-{number:03}")
        cache.put(f"ns/p{number:03}", Pod(metadata=meta))
    informer: Any = SimpleNamespace(cache=cache, has_synced=True)
    counter = Counter(env, PodEvaluator(), informer, is_measured=True)
    counting = asyncio.ensure_future(counter.count("ns", ["pods"], ()))
    await asyncio.sleep(0)
    cache.drop("ns/p150")
    counter.forget("uid-150")
    assert (await counting)["pods"] == Quantity(2 * CONCURRENCY), "it was there when the count began"
    assert remains(counter, "uid-150") == []
    assert remains(counter, "uid-151") != []
