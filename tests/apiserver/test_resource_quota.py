"""What quotas charge and refuse (apiserver ``pkg/admission/plugin/resourcequota``, v0.36, ``admission_test.go``)."""

import asyncio
import datetime
from typing import Any

import pytest
from tests.apiserver.api import PODS, Answer, Api, config_map, on, pod

from pilothouse.semantics.quota import PodEvaluator, has_ended

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
SERVICES = "/api/v1/namespaces/default/services"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
NOW = datetime.datetime(2026, 1, 1, 0, 1, tzinfo=datetime.UTC)
MAPS = "/api/v1/namespaces/default/configmaps"


async def quota(
    api: Api, hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", **spec: Any
) -> None:
    """A quota that its controller has looked at."""
    await api.made(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    answer = await api.patch(f"{QUOTAS}/{name}/status", {"status": status})
    assert answer.status == 200, answer.text


async def used(api: Api, name: str = "q") -> dict[str, str]:
    found: dict[str, str] = (await api.get(f"{QUOTAS}/{name}")).body["status"]["used"]
    return found


def limited(cpu: str = "100m", name: str = "p", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    return pod(name, containers=[{"name": "c", "image": "i", "resources": resources}], **more)


def test_a_pod_is_charged_at_once() -> None:
    hard = {"pods": "5", "count/pods": "9", "cpu": "1", "requests.cpu": "1", "limits.memory": "4Gi"}

    async def main(api: Api) -> dict[str, str]:
        await quota(api, hard)
        await api.made(PODS, limited())
        await api.made(PODS, limited(name="q"))
        return await used(api)

    expected = {"pods": "2", "count/pods": "2", "cpu": "200m", "requests.cpu": "200m", "limits.memory": "2Gi"}
    assert on(main) == expected


def test_what_is_too_much_is_refused_and_not_charged() -> None:
    async def main(api: Api) -> tuple[Answer, dict[str, str]]:
        await quota(
            api,
            {"requests.cpu": "1", "pods": "5", "limits.cpu": "1"},
            {"requests.cpu": "900m", "pods": "1", "limits.cpu": "500m"},
        )
        return await api.post(PODS, limited("200m")), await used(api)

    answer, after = on(main)
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: limits.cpu=1,requests.cpu=200m, '
        "used: limits.cpu=500m,requests.cpu=900m, limited: limits.cpu=1,requests.cpu=1"
    )
    assert answer.body["details"] == {"name": "p", "kind": "pods"}
    assert after == {"requests.cpu": "900m", "pods": "1", "limits.cpu": "500m"}


def test_many_at_once_do_not_get_more_than_there_is() -> None:
    async def main(api: Api) -> tuple[list[int], dict[str, str]]:
        await quota(api, {"pods": "5"})
        answers = await asyncio.gather(*(api.post(PODS, pod(f"p{number}")) for number in range(8)))
        return sorted(answer.status for answer in answers), await used(api)

    assert on(main) == ([201] * 5 + [403] * 3, {"pods": "5"})


def test_every_quota_is_charged_or_none() -> None:
    async def main(api: Api) -> tuple[int, dict[str, str], dict[str, str]]:
        await quota(api, {"pods": "5"}, name="a")
        await quota(api, {"count/pods": "1"}, name="b")
        await api.made(PODS, pod())
        refused = await api.post(PODS, pod("q"))
        return refused.status, await used(api, "a"), await used(api, "b")

    assert on(main) == (403, {"pods": "1"}, {"count/pods": "1"})


@pytest.mark.parametrize(
    ("hard", "status", "message"),
    [
        pytest.param({"pods": "1"}, {}, "", id="nobody has looked at the quota: it limits nothing"),
        pytest.param(
            {"pods": "1", "requests.memory": "1Gi"},
            {"hard": {"pods": "1", "requests.memory": "1Gi"}, "used": {"pods": "0"}},
            "status unknown for quota: q, resources: pods,requests.memory",
            id="what is used of a resource is not known yet",
        ),
    ],
)
def test_before_the_quota_is_counted(hard: dict[str, str], status: dict[str, Any], message: str) -> None:
    async def main(api: Api) -> str:
        await api.made(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await api.patch(f"{QUOTAS}/q/status", {"status": status})
        return (await api.post(PODS, limited())).message

    assert on(main) == (f'pods "p" is forbidden: {message}' if message else "")


def test_where_cpu_or_memory_is_limited_every_container_must_say() -> None:
    async def main(api: Api) -> tuple[str, int]:
        await quota(api, {"limits.cpu": "9", "requests.memory": "9Gi", "requests.ephemeral-storage": "1Gi"})
        two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "resources": {"limits": {"cpu": "1"}}}]
        whole = {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}}
        refused = await api.post(PODS, pod(containers=two, initContainers=[{"name": "i", "image": "i"}]))
        return refused.message, (await api.post(PODS, pod(containers=two, resources=whole))).status

    message, whole = on(main)
    why = "failed quota: q: must specify limits.cpu for: a,i; requests.memory for: a,b,i"
    assert message == f'pods "p" is forbidden: {why}'
    assert whole == 201, "unless the pod does as a whole"


@pytest.mark.parametrize(
    ("scopes", "spec", "charged"),
    [
        pytest.param(["Terminating"], {"activeDeadlineSeconds": 5}, True, id="a pod with a deadline"),
        pytest.param(["Terminating"], {}, False, id="without one"),
        pytest.param(["NotTerminating"], {}, True, id="without one, and that is the scope"),
        pytest.param(["BestEffort"], {}, True, id="a pod that asks for nothing"),
        pytest.param(["NotBestEffort"], {}, False, id="is not the other kind"),
        pytest.param(["BestEffort", "Terminating"], {}, False, id="all scopes must match"),
        pytest.param(
            [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}],
            {"priorityClassName": "high"},
            True,
            id="a priority that is listed",
        ),
        pytest.param(
            [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}], {}, True, id="none is not listed"
        ),
        pytest.param([{"scopeName": "PriorityClass", "operator": "Exists"}], {}, False, id="no priority class"),
        pytest.param(
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
            id="it looks into other namespaces",
        ),
        pytest.param(["CrossNamespacePodAffinity"], {}, False, id="it does not"),
    ],
)
def test_scopes(scopes: list[Any], spec: dict[str, Any], charged: bool) -> None:
    async def main(api: Api) -> dict[str, str]:
        await api.made("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 5})
        plain = isinstance(scopes[0], str)
        selected: dict[str, Any] = {"scopes": scopes} if plain else {"scopeSelector": {"matchExpressions": scopes}}
        await quota(api, {"pods": "5"}, **selected)
        await api.made(PODS, pod(**spec))
        return await used(api)

    assert on(main) == {"pods": "1" if charged else "0"}


def test_a_deadline_set_later_moves_a_pod_between_scopes() -> None:
    async def main(api: Api) -> tuple[dict[str, str], int]:
        await quota(api, {"pods": "1"}, scopes=["Terminating"])
        for name in ("p", "q"):
            await api.made(PODS, pod(name))
            answer = await api.patch(f"{PODS}/{name}", {"spec": {"activeDeadlineSeconds": 100}})
        return await used(api), answer.status

    assert on(main) == ({"pods": "1"}, 403)


def service(kind: str, name: str = "s", ports: int = 2, **more: Any) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": listed, **more}}


def test_services_are_charged_by_what_they_cost_and_again_when_they_cost_more() -> None:
    hard = {"services": "9", "services.nodeports": "9", "services.loadbalancers": "2", "count/services": "9"}

    async def main(api: Api) -> list[dict[str, str]]:
        await quota(api, hard)
        await api.made(SERVICES, service("ClusterIP"))
        seen = [await used(api)]
        await api.patch(f"{SERVICES}/s", {"spec": {"type": "NodePort"}})
        seen.append(await used(api))
        await api.patch(f"{SERVICES}/s", {"metadata": {"labels": {"a": "b"}}})
        await api.made(SERVICES, service("LoadBalancer", "l"))
        seen.append(await used(api))
        await api.made(SERVICES, service("LoadBalancer", "m", allocateLoadBalancerNodePorts=False))
        seen.append(await used(api))
        return seen

    def of(*counts: int) -> dict[str, str]:
        names = ("services", "services.nodeports", "services.loadbalancers", "count/services")
        return dict(zip(names, map(str, counts), strict=True))

    assert on(main) == [of(1, 0, 0, 1), of(1, 2, 0, 1), of(2, 4, 1, 2), of(3, 4, 2, 3)]


def test_claims_are_charged_by_size_and_class_and_for_growing() -> None:
    of_class = "fast.storageclass.storage.k8s.io/"
    hard = {
        "persistentvolumeclaims": "5", "requests.storage": "10Gi", f"{of_class}requests.storage": "5Gi",
        f"{of_class}persistentvolumeclaims": "5", "slow.storageclass.storage.k8s.io/requests.storage": "0",
    }  # fmt: skip

    def claim(name: str, size: str, **spec: Any) -> dict[str, Any]:
        resources = {"requests": {"storage": size}}
        return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}

    async def main(api: Api) -> tuple[dict[str, str], str]:
        await quota(api, hard)
        await api.made(CLAIMS, claim("a", "2Gi"))
        await api.made(CLAIMS, claim("b", "3Gi", storageClassName="fast"))
        refused = await api.post(CLAIMS, claim("c", "1Gi", storageClassName="slow"))
        return await used(api), refused.message

    after, message = on(main)
    assert after == {
        "persistentvolumeclaims": "2", "requests.storage": "5Gi", f"{of_class}requests.storage": "3Gi",
        f"{of_class}persistentvolumeclaims": "1", "slow.storageclass.storage.k8s.io/requests.storage": "0",
    }  # fmt: skip
    slow = "slow.storageclass.storage.k8s.io/requests.storage"
    assert message == (
        f'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: {slow}=1Gi, used: {slow}=0, '
        f"limited: {slow}=0"
    )


def test_everything_else_is_counted() -> None:
    async def main(api: Api) -> tuple[dict[str, str], str, int]:
        await quota(api, {"configmaps": "2", "count/configmaps": "5", "count/deployments.apps": "0"})
        await api.made(MAPS, config_map("a"))
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        refused = await api.post(
            "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec}
        )
        elsewhere = await api.post("/api/v1/namespaces/kube-system/configmaps", config_map("a"))
        return await used(api), refused.message, elsewhere.status

    after, message, elsewhere = on(main)
    assert after == {"configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "0"}
    name = "count/deployments.apps"
    assert message == (
        f'deployments.apps "d" is forbidden: exceeded quota: q, requested: {name}=1, used: {name}=0, limited: {name}=0'
    )
    assert elsewhere == 201


def test_nothing_is_charged_for_what_is_not_stored() -> None:
    async def main(api: Api) -> tuple[list[int], dict[str, str]]:
        await quota(api, {"configmaps": "2"})
        codes = [(await api.post(MAPS + "?dryRun=All", config_map("a"))).status]
        await api.made(MAPS, config_map("a"))
        codes.append((await api.post(MAPS, config_map("a"))).status)
        codes.append((await api.post(MAPS, config_map("Not A Name"))).status)
        codes.append((await api.patch(f"{MAPS}/a", {"data": {"x": "y"}})).status)
        await api.made(MAPS, config_map("b"))
        codes.append((await api.post(MAPS + "?dryRun=All", config_map("c"))).status)
        return codes, await used(api)

    assert on(main) == ([201, 409, 422, 200, 403], {"configmaps": "2"})


def test_watchers_see_the_quota_change_before_the_object() -> None:
    async def main(api: Api) -> tuple[int, int]:
        await quota(api, {"pods": "2"})
        made = await api.made(PODS, pod())
        charged = await api.get(f"{QUOTAS}/q")
        return int(charged.meta["resourceVersion"]), int(made["metadata"]["resourceVersion"])

    charged, made = on(main)
    assert charged < made


def test_a_pod_that_has_ended_uses_nothing_but_its_place() -> None:
    leaving = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 29}}
    assert has_ended(leaving, NOW)
    assert not has_ended(leaving, NOW - datetime.timedelta(seconds=2))
    done = {**limited(), "status": {"phase": "Succeeded"}}
    assert list(PodEvaluator().usage(done, NOW)) == ["count/pods"]


def test_extended_resources_hugepages_and_overhead_count() -> None:
    asked = {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "cpu": "1"}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked}}], "overhead": {"cpu": "100m"}}
    evaluator = PodEvaluator()
    names = [
        "requests.example.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.cpu", "requests.storage",
        "limits.example.com/gpu", "example.com/gpu",
    ]  # fmt: skip
    matching = evaluator.matching(names)
    assert matching == ["hugepages-2Mi", "requests.cpu", "requests.example.com/gpu", "requests.hugepages-2Mi"]
    found = evaluator.usage({"metadata": {}, "spec": spec}, NOW)
    assert {name: str(found[name]) for name in matching} == {
        "hugepages-2Mi": "4Mi", "requests.cpu": "1100m", "requests.example.com/gpu": "2",
        "requests.hugepages-2Mi": "4Mi",
    }  # fmt: skip


def test_a_pod_that_is_resized_is_charged_for_the_rest() -> None:
    async def main(api: Api) -> list[Any]:
        await quota(api, {"requests.cpu": "1"})
        await api.made(PODS, limited("300m"))
        seen: list[Any] = []
        for cpu in ("500m", "200m", "1500m"):
            resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
            change = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
            answer = await api.patch(f"{PODS}/p/resize", change, "application/strategic-merge-patch+json")
            seen.append((answer.status, await used(api)))
        return seen

    # What is given back is the controller's to see.
    assert on(main) == [
        (200, {"requests.cpu": "500m"}),
        (200, {"requests.cpu": "500m"}),
        (403, {"requests.cpu": "500m"}),
    ]
