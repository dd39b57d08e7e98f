"""The ResourceQuota plugin: charges and rejections (apiserver ``pkg/admission/plugin/resourcequota``, v0.36,
``admission_test.go``)."""

import asyncio
import datetime
from typing import Any

import pytest
from tests.apiserver.api import PODS, Api, config_map, pod
from tests.tables import cases

from pilothouse.semantics.quota import PodEvaluator, ScopeRequirement, evaluator_for, has_ended

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
SERVICES = "/api/v1/namespaces/default/services"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
NOW = datetime.datetime(2026, 1, 1, 0, 1, tzinfo=datetime.UTC)
MAPS = "/api/v1/namespaces/default/configmaps"


async def quota(
    api: Api, hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", **spec: Any
) -> None:
    """A quota with a status."""
    await api.create(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    answer = await api.patch(f"{QUOTAS}/{name}/status", {"status": status})
    assert answer.status == 200, answer.text


async def used(api: Api, name: str = "q") -> dict[str, str]:
    obj: dict[str, str] = (await api.get(f"{QUOTAS}/{name}")).body["status"]["used"]
    return obj


def limited(cpu: str = "100m", name: str = "p", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    return pod(name, containers=[{"name": "c", "image": "i", "resources": resources}], **more)


async def test_pod_is_charged_immediately(api: Api) -> None:
    hard = {"pods": "5", "count/pods": "9", "cpu": "1", "requests.cpu": "1", "limits.memory": "4Gi"}

    expected = {"pods": "2", "count/pods": "2", "cpu": "200m", "requests.cpu": "200m", "limits.memory": "2Gi"}
    await quota(api, hard)
    await api.create(PODS, limited())
    await api.create(PODS, limited(name="q"))
    assert await used(api) == expected


async def test_the_server_owns_what_it_has_charged(api: Api) -> None:
    """Recorded from v1.36.2."""
    await quota(api, {"pods": "5", "secrets": "5"})
    for name in ("p", "q"):
        await api.create(PODS, pod(name))
    entries = (await api.get(f"{QUOTAS}/q")).meta["managedFields"]
    of_status = {entry["manager"]: entry["fieldsV1"]["f:status"] for entry in entries if "subresource" in entry}
    assert of_status.pop("kube-apiserver") == {"f:used": {"f:pods": {}}}
    (of_client,) = of_status.values()
    assert of_client["f:used"] == {".": {}, "f:secrets": {}}


async def test_exceeding_pod_is_rejected_and_not_charged(api: Api) -> None:
    await quota(
        api,
        {"requests.cpu": "1", "pods": "5", "limits.cpu": "1"},
        {"requests.cpu": "900m", "pods": "1", "limits.cpu": "500m"},
    )
    answer = await api.post(PODS, limited("200m"))
    after = await used(api)
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: limits.cpu=1,requests.cpu=200m, '
        "used: limits.cpu=500m,requests.cpu=900m, limited: limits.cpu=1,requests.cpu=1"
    )
    assert answer.body["details"] == {"name": "p", "kind": "pods"}
    assert after == {"requests.cpu": "900m", "pods": "1", "limits.cpu": "500m"}


async def test_concurrent_creates_do_not_exceed_the_quota(api: Api) -> None:
    await quota(api, {"pods": "5"})
    answers = await asyncio.gather(*(api.post(PODS, pod(f"p{number}")) for number in range(8)))
    assert (sorted(answer.status for answer in answers), await used(api)) == ([201] * 5 + [403] * 3, {"pods": "5"})


async def test_all_quotas_are_charged_or_none(api: Api) -> None:
    await quota(api, {"pods": "5"}, name="a")
    await quota(api, {"count/pods": "1"}, name="b")
    await api.create(PODS, pod())
    rejected = await api.post(PODS, pod("q"))
    assert (rejected.status, await used(api, "a"), await used(api, "b")) == (403, {"pods": "1"}, {"count/pods": "1"})


@cases(
    "hard, status, message",
    {
        "quota without status": ({"pods": "1"}, {}, ""),
        "usage without the resource": (
            {"pods": "1", "requests.memory": "1Gi"},
            {"hard": {"pods": "1", "requests.memory": "1Gi"}, "used": {"pods": "0"}},
            "status unknown for quota: q, resources: pods,requests.memory",
        ),
    },
)
async def test_quota_without_status(api: Api, hard: dict[str, str], status: dict[str, Any], message: str) -> None:
    await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await api.patch(f"{QUOTAS}/q/status", {"status": status})
    assert (await api.post(PODS, limited())).message == (f'pods "p" is forbidden: {message}' if message else "")


async def test_containers_must_specify_quota_limited_resources(api: Api) -> None:
    await quota(api, {"limits.cpu": "9", "requests.memory": "9Gi", "requests.ephemeral-storage": "1Gi"})
    two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
    whole = {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}
    rejected = await api.post(PODS, pod(containers=two, initContainers=[{"name": "i", "image": "i"}]))
    allowed = await api.post(PODS, pod(containers=two, resources=whole))
    why = "failed quota: q: must specify limits.cpu for: a,i; requests.memory for: a,b,i"
    assert rejected.message == f'pods "p" is forbidden: {why}'
    assert allowed.status == 201, "unless the pod does as a whole"


@cases(
    "scopes, spec, charged",
    {
        "a pod with a deadline": (["Terminating"], {"activeDeadlineSeconds": 5}, True),
        "no deadline, scope Terminating": (["Terminating"], {}, False),
        "no deadline, scope NotTerminating": (["NotTerminating"], {}, True),
        "a pod without requests": (["BestEffort"], {}, True),
        "is not the other kind": (["NotBestEffort"], {}, False),
        "all scopes must match": (["BestEffort", "Terminating"], {}, False),
        "a priority that is listed": (
            [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}],
            {"priorityClassName": "high"},
            True,
        ),
        "NotIn: priority class is not listed": (
            [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}],
            {},
            True,
        ),
        "Exists: no priority class": ([{"scopeName": "PriorityClass", "operator": "Exists"}], {}, False),
        "affinity with namespaceSelector": (
            ["CrossNamespacePodAffinity"],
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "namespaceSelector": {}}
                        ]
                    }
                }
            },
            True,
        ),
        "no affinity to other namespaces": (["CrossNamespacePodAffinity"], {}, False),
    },
)
async def test_scopes(api: Api, scopes: list[Any], spec: dict[str, Any], charged: bool) -> None:
    await api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 5})
    plain = isinstance(scopes[0], str)
    selected: dict[str, Any] = {"scopes": scopes} if plain else {"scopeSelector": {"matchExpressions": scopes}}
    await quota(api, {"pods": "5"}, **selected)
    await api.create(PODS, pod(**spec))
    assert await used(api) == {"pods": "1" if charged else "0"}


async def test_active_deadline_set_later_changes_the_scope(api: Api) -> None:
    await quota(api, {"pods": "1"}, scopes=["Terminating"])
    for name in ("p", "q"):
        await api.create(PODS, pod(name))
        answer = await api.patch(f"{PODS}/{name}", {"spec": {"activeDeadlineSeconds": 100}})
    assert (await used(api), answer.status) == ({"pods": "1"}, 403)


def service(kind: str, name: str = "s", ports: int = 2, **more: Any) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": listed, **more}}


async def test_services_are_charged_by_type_and_on_updates(api: Api) -> None:
    hard = {"services": "9", "services.nodeports": "9", "services.loadbalancers": "2", "count/services": "9"}

    def of(*counts: int) -> dict[str, str]:
        names = ("services", "services.nodeports", "services.loadbalancers", "count/services")
        return dict(zip(names, map(str, counts), strict=True))

    await quota(api, hard)
    await api.create(SERVICES, service("ClusterIP"))
    observed = [await used(api)]
    await api.patch(f"{SERVICES}/s", {"spec": {"type": "NodePort"}})
    observed.append(await used(api))
    await api.patch(f"{SERVICES}/s", {"metadata": {"labels": {"a": "b"}}})
    await api.create(SERVICES, service("LoadBalancer", "l"))
    observed.append(await used(api))
    await api.create(SERVICES, service("LoadBalancer", "m", allocateLoadBalancerNodePorts=False))
    observed.append(await used(api))
    assert observed == [of(1, 0, 0, 1), of(1, 2, 0, 1), of(2, 4, 1, 2), of(3, 4, 2, 3)]


async def test_claims_are_charged_by_size_class_and_expansion(api: Api) -> None:
    of_class = "fast.storageclass.storage.k8s.io/"
    hard = {
        "persistentvolumeclaims": "5", "requests.storage": "10Gi", f"{of_class}requests.storage": "5Gi",
        f"{of_class}persistentvolumeclaims": "5", "slow.storageclass.storage.k8s.io/requests.storage": "0",
    }  # fmt: skip

    def claim(name: str, size: str, **spec: Any) -> dict[str, Any]:
        resources = {"requests": {"storage": size}}
        return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}

    await quota(api, hard)
    await api.create(CLAIMS, claim("a", "2Gi"))
    await api.create(CLAIMS, claim("b", "3Gi", storageClassName="fast"))
    rejected = await api.post(CLAIMS, claim("c", "1Gi", storageClassName="slow"))
    after = await used(api)
    message = rejected.message
    assert after == {
        "persistentvolumeclaims": "2", "requests.storage": "5Gi", f"{of_class}requests.storage": "3Gi",
        f"{of_class}persistentvolumeclaims": "1", "slow.storageclass.storage.k8s.io/requests.storage": "0",
    }  # fmt: skip
    slow = "slow.storageclass.storage.k8s.io/requests.storage"
    assert message == (
        f'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: {slow}=1Gi, used: {slow}=0, '
        f"limited: {slow}=0"
    )


async def test_object_count_quota(api: Api) -> None:
    await quota(api, {"configmaps": "2", "count/configmaps": "5", "count/deployments.apps": "0"})
    await api.create(MAPS, config_map("a"))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    rejected = await api.post("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec})
    elsewhere = await api.post("/api/v1/namespaces/kube-system/configmaps", config_map("a"))
    after = await used(api)
    message = rejected.message
    assert after == {"configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "0"}
    name = "count/deployments.apps"
    assert message == (
        f'deployments.apps "d" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=0, limited: {name}=0'
    )
    assert elsewhere.status == 201


async def test_dry_run_and_failed_writes_are_not_charged(api: Api) -> None:
    await quota(api, {"configmaps": "2"})
    codes = [(await api.post(MAPS + "?dryRun=All", config_map("a"))).status]
    await api.create(MAPS, config_map("a"))
    codes.append((await api.post(MAPS, config_map("a"))).status)
    codes.append((await api.post(MAPS, config_map("Not A Name"))).status)
    codes.append((await api.patch(f"{MAPS}/a", {"data": {"x": "y"}})).status)
    await api.create(MAPS, config_map("b"))
    codes.append((await api.post(MAPS + "?dryRun=All", config_map("c"))).status)
    assert (codes, await used(api)) == ([201, 409, 422, 200, 403], {"configmaps": "2"})


async def test_quota_update_is_observed_before_the_object(api: Api) -> None:
    await quota(api, {"pods": "2"})
    created = await api.create(PODS, pod())
    charged = await api.get(f"{QUOTAS}/q")
    assert int(charged.meta["resourceVersion"]) < int(created["metadata"]["resourceVersion"])


def test_terminated_pod_counts_only_as_an_object() -> None:
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 29}}
    assert has_ended(leaving, NOW)
    assert not has_ended(leaving, NOW - datetime.timedelta(seconds=2))
    done = {**limited(), "status": {"phase": "Succeeded"}}
    assert list(PodEvaluator().usage(done, NOW)) == ["count/pods"]


def test_pod_level_resources_gate() -> None:
    """``PodLevelResources``, for the manager: usage, scopes and constraints of its evaluator."""
    containers = [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]
    pod_object = {"metadata": {}, "spec": {"resources": {"requests": {"cpu": "2"}}, "containers": containers}}
    on_, off = PodEvaluator(), PodEvaluator(pod_level_resources=False)
    assert str(on_.usage(pod_object, NOW)["requests.cpu"]) == "2"
    assert "requests.cpu" not in off.usage(pod_object, NOW)
    assert on_.lacking(["requests.cpu"], pod_object) == ""
    assert off.lacking(["requests.cpu"], pod_object) == "must specify requests.cpu for: c"
    bare = {"metadata": {}, "spec": {"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "c"}]}}
    scope = ScopeRequirement(scope_name="BestEffort", operator="Exists")
    assert (on_.in_scope(scope, bare), off.in_scope(scope, bare)) == (False, True)


@cases(
    "requests, expected",
    {
        "ExactCount": ([{"exactly": {"allocationMode": "ExactCount", "count": 3}}], "3"),
        "All: the maximum of a claim": ([{"exactly": {"allocationMode": "All"}}], "32"),
        "unknown allocation mode: zero": ([{"exactly": {"allocationMode": "Most", "count": 3}}], "0"),
        "firstAvailable with an unknown allocation mode": (
            [
                {
                    "firstAvailable": [
                        {"allocationMode": "Most", "count": 9},
                        {"allocationMode": "ExactCount", "count": 2},
                    ]
                }
            ],
            "2",
        ),
    },
)
def test_claim_device_usage(requests: list[Any], expected: str) -> None:
    """``claimEvaluator.Usage``: unknown modes don't count towards the quota."""
    for request in requests:
        for item in [request.get("exactly"), *request.get("firstAvailable", ())]:
            if item is not None:
                item["deviceClassName"] = "gpu"
    evaluator = evaluator_for("resource.k8s.io", "resourceclaims")
    assert evaluator is not None
    result = evaluator.usage({"metadata": {}, "spec": {"devices": {"requests": requests}}}, NOW)
    assert str(result["gpu.deviceclass.resource.k8s.io/devices"]) == expected


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_implicit_extended_resources_are_counted(field: str) -> None:
    """Both "implicit extended resources" of v1.36 ``TestPodEvaluatorUsage``."""
    dongles = {"deviceclass.resource.kubernetes.io/dongle": "3"}
    spec = {field: [{"name": "c", "resources": {"requests": dongles, "limits": dongles}}]}
    counted = PodEvaluator().usage({"metadata": {}, "spec": spec}, NOW)
    named = {name: str(amount) for name, amount in counted.items()}
    assert named == {"requests.deviceclass.resource.kubernetes.io/dongle": "3", "pods": "1", "count/pods": "1"}


async def test_implicit_extended_resources_are_limited(api: Api) -> None:
    name = "deviceclass.resource.kubernetes.io/dongle"

    def asking(pod_name: str) -> dict[str, Any]:
        resources = {"requests": {name: "2"}, "limits": {name: "2"}}
        return pod(pod_name, containers=[{"name": "c", "image": "i", "resources": resources}])

    await quota(api, {f"requests.{name}": "3"})
    await api.create(PODS, asking("p"))
    rejected = await api.post(PODS, asking("q"))
    charged = await used(api)
    assert charged == {f"requests.{name}": "2"}
    sent_requests = f"requested: requests.{name}=2, used: requests.{name}=2, limited: requests.{name}=3"
    assert rejected.message == f'pods "q" is forbidden: exceeded quota: q, {sent_requests}'


def test_extended_resources_hugepages_and_overhead_count() -> None:
    requested = {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "cpu": "1"}
    spec = {"containers": [{"name": "c", "resources": {"requests": requested}}], "overhead": {"cpu": "100m"}}
    evaluator = PodEvaluator()
    names = [
        "requests.example.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.cpu", "requests.storage",
        "limits.example.com/gpu", "example.com/gpu",
    ]  # fmt: skip
    matching = evaluator.matching(names)
    assert matching == ["hugepages-2Mi", "requests.cpu", "requests.example.com/gpu", "requests.hugepages-2Mi"]
    result = evaluator.usage({"metadata": {}, "spec": spec}, NOW)
    assert {name: str(result[name]) for name in matching} == {
        "hugepages-2Mi": "4Mi", "requests.cpu": "1100m", "requests.example.com/gpu": "2",
        "requests.hugepages-2Mi": "4Mi",
    }  # fmt: skip


async def test_resize_charges_the_difference(api: Api) -> None:
    await quota(api, {"requests.cpu": "1"})
    await api.create(PODS, limited("300m"))
    observed: list[Any] = []
    for cpu in ("500m", "200m", "1500m"):
        resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
        change = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        answer = await api.patch(f"{PODS}/p/resize", change, "application/strategic-merge-patch+json")
        observed.append((answer.status, await used(api)))
    # Released usage is recounted by the controller.
    assert observed == [
        (200, {"requests.cpu": "500m"}),
        (200, {"requests.cpu": "500m"}),
        (403, {"requests.cpu": "500m"}),
    ]
