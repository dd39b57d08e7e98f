"""LimitRanger for pods and claims (kubernetes ``limitranger/admission_test.go``, v1.36)."""

from typing import Any

from tests.apiserver.api import PODS, Answer, Api, pod
from tests.tables import cases

RANGES = "/api/v1/namespaces/default/limitranges"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
NOTE = "kubernetes.io/limit-ranger"


def limit_range(*limits: dict[str, Any], name: str = "limits") -> dict[str, Any]:
    return {"kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": list(limits)}}


def a_container(name: str = "c", requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name, "image": "i", "resources": resources, **more}


async def posted(api: Api, limits: list[dict[str, Any]], target: str, body: Any) -> Answer:
    await api.create(RANGES, limit_range(*limits))
    return await api.post(target, body)


DEFAULTS = {
    "type": "Container",
    "default": {"cpu": "500m", "memory": "1Gi"},
    "defaultRequest": {"cpu": "100m", "memory": "1Gi"},
}


async def test_container_without_resources_gets_defaults_and_the_annotation(api: Api) -> None:
    created = (
        await posted(api, [DEFAULTS], PODS, pod(containers=[a_container()], initContainers=[a_container("i")]))
    ).body
    for container in (created["spec"]["containers"][0], created["spec"]["initContainers"][0]):
        assert container["resources"] == {
            "limits": {"cpu": "500m", "memory": "1Gi"},
            "requests": {"cpu": "100m", "memory": "1Gi"},
        }
    assert created["metadata"]["annotations"][NOTE] == (
        "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; "
        "cpu, memory request for init container i; cpu, memory limit for init container i"
    )
    assert created["status"]["qosClass"] == "Burstable"


async def test_explicit_resources_are_kept_and_not_in_the_annotation(api: Api) -> None:
    requested = {"cpu": "200m", "memory": "2Gi"}
    created = (
        await posted(api, [DEFAULTS], PODS, pod(containers=[a_container(requests=requested, limits={"memory": "2Gi"})]))
    ).body
    assert created["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "2Gi"},
        "requests": requested,
    }
    assert created["metadata"]["annotations"] == {NOTE: "LimitRanger plugin set: cpu limit for container c"}


async def test_pod_with_all_resources_gets_no_annotation(api: Api) -> None:
    full = {"cpu": "200m", "memory": "1Gi"}
    created = (await posted(api, [DEFAULTS], PODS, pod(containers=[a_container(requests=full, limits=full)]))).body
    assert "annotations" not in created["metadata"]


@cases(
    "limit, container, why",
    {
        "a request below the minimum": (
            {"type": "Container", "min": {"cpu": "100m"}},
            a_container(requests={"cpu": "50m"}, limits={"cpu": "1"}),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        "a minimum for pods needs a request": (
            {"type": "Pod", "min": {"cpu": "100m"}},
            a_container(),
            "minimum cpu usage per Pod is 100m.  No request is specified",
        ),
        "a maximum for pods needs a limit": (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            a_container(requests={"memory": "1Gi"}),
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        "a limit above the maximum": (
            {"type": "Container", "max": {"memory": "1Gi"}},
            a_container(limits={"memory": "2Gi"}),
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        "ratio above maxLimitRequestRatio": (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            a_container(requests={"cpu": "100m"}, limits={"cpu": "400m"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
        ),
        "a ratio needs a request": (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            a_container(),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        "a ratio needs a limit": (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            a_container(requests={"cpu": "1"}),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        "several errors": (
            {"type": "Pod", "max": {"cpu": "1"}, "min": {"memory": "1Gi"}},
            a_container(requests={"memory": "1Mi"}, limits={"cpu": "2"}),
            "[minimum memory usage per Pod is 1Gi, but request is 1Mi, maximum cpu usage per Pod is 1, but limit is 2]",
        ),
    },
)
async def test_rejected_pods(api: Api, limit: dict[str, Any], container: dict[str, Any], why: str) -> None:
    answer = await posted(api, [limit], PODS, pod(containers=[container]))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == f'pods "p" is forbidden: {why}'
    assert answer.body["details"] == {"name": "p", "kind": "pods"}


async def test_pod_limits_sum_containers_and_use_the_largest_init_container(api: Api) -> None:
    await api.create(RANGES, limit_range({"type": "Pod", "max": {"cpu": "3"}}))
    two = [a_container("a", limits={"cpu": "1"}), a_container("b", limits={"cpu": "1"})]
    codes = []
    for name, init in (("fits", "3"), ("large", "3500m"), ("sidecar", "2500m")):
        restart = {"restartPolicy": "Always"} if name == "sidecar" else {}
        spec = {"containers": two, "initContainers": [a_container("i", limits={"cpu": init}, **restart)]}
        codes.append((await api.post(PODS, pod(name, **spec))).status)
    assert codes == [201, 403, 403]


async def test_pod_level_resources_take_precedence(api: Api) -> None:
    limit = {"type": "Pod", "max": {"cpu": "3"}}
    whole = {"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}
    answer = await posted(api, [limit], PODS, pod(containers=[a_container(limits={"cpu": "1"})], resources=whole))
    assert answer.message.endswith("maximum cpu usage per Pod is 3, but limit is 4")


@cases(
    "size, why",
    {
        "too small": ("1Gi", "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        "too large": ("9Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 9Gi"),
        "between minimum and maximum": ("3Gi", ""),
    },
)
async def test_persistent_volume_claims(api: Api, size: str, why: str) -> None:
    limit = {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "5Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    body = {"kind": "PersistentVolumeClaim", "metadata": {"name": "d"}, "spec": spec}
    answer = await posted(api, [limit], CLAIMS, body)
    expected = f'persistentvolumeclaims "d" is forbidden: {why}' if why else ""
    assert (answer.status, answer.message) == (403 if why else 201, expected)


async def test_generated_name_is_in_the_error(api: Api) -> None:
    body = pod(containers=[a_container()])
    body["metadata"] = {"generateName": "web-"}
    answer = await posted(api, [{"type": "Pod", "min": {"cpu": "1"}}], PODS, body)
    assert answer.message.startswith('pods "web-')


async def test_pod_updates_and_other_namespaces_are_not_limited(api: Api) -> None:
    await api.create(PODS, pod())
    await api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    await api.create(RANGES, limit_range({"type": "Pod", "min": {"cpu": "1"}}))
    changed = await api.patch(PODS + "/p", {"metadata": {"labels": {"a": "b"}}})
    elsewhere = await api.post("/api/v1/namespaces/other/pods", pod())
    dry = await api.post(PODS + "?dryRun=All", pod("q"))
    await api.delete(RANGES + "/limits")
    assert [changed.status, elsewhere.status, dry.status, (await api.post(PODS, pod("q"))).status] == [
        200,
        201,
        403,
        201,
    ]


async def test_resize_beyond_limits_is_rejected(api: Api) -> None:
    await api.create(PODS, pod(containers=[a_container(requests={"cpu": "1"}, limits={"cpu": "2"})]))
    await api.create(RANGES, limit_range({"type": "Container", "max": {"cpu": "2"}}))
    answers = []
    for cpu in ("1500m", "3"):
        wanted = {"requests": {"cpu": "1"}, "limits": {"cpu": cpu}}
        change = {"spec": {"containers": [{"name": "c", "resources": wanted}]}}
        answers.append(await api.patch(f"{PODS}/p/resize", change, "application/strategic-merge-patch+json"))
    code = answers[0].status
    message = answers[1].message
    assert code == 200
    assert message.endswith("maximum cpu usage per Container is 2, but limit is 3")


@cases(
    "containers, ranges, too_many",
    {
        "most comparisons without limit": (20, 1, False),
        "too many containers": (21, 1, True),
        "too many limits": (1, 21, True),
    },
)
async def test_number_of_compared_quantities_is_bounded(api: Api, containers: int, ranges: int, too_many: bool) -> None:
    amounts = {f"example.com/r{number}": "1" for number in range(1000)}
    for number in range(ranges):
        limits = limit_range({"type": "Pod", "max": amounts}, name=f"l{number}")
        await api.create(RANGES, limits)
    answer = await api.post(PODS, pod(containers=[a_container(f"c{number}") for number in range(containers)]))
    assert answer.status == 403
    assert ("comparisons of quantities, at most 20000 are allowed" in answer.message) == too_many
    assert ("maximum example.com/r0 usage per Pod is 1" in answer.message) != too_many
