"""The Priority plugin (kubernetes ``plugin/pkg/admission/priority/admission_test.go``, v1.36)."""

from typing import Any

from tests.apiserver.api import Api
from tests.tables import cases

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"


def a_class(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def a_pod(**spec: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


DEFAULT = a_class("usual", 7, globalDefault=True)


@cases(
    "classes, spec, expected",
    {
        "no class, no default": ([], {}, (None, 0, "PreemptLowerPriority")),
        "the default class": ([DEFAULT], {}, ("usual", 7, "PreemptLowerPriority")),
        "a class": ([DEFAULT, a_class("c", 3)], {"priorityClassName": "c"}, ("c", 3, "PreemptLowerPriority")),
        "preemptionPolicy Never": (
            [a_class("c", 3, preemptionPolicy="Never")],
            {"priorityClassName": "c"},
            ("c", 3, "Never"),
        ),
        "a class of the system": (
            [],
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2000001000, "PreemptLowerPriority"),
        ),
        "numbers that agree": (
            [a_class("c", 3)],
            {"priorityClassName": "c", "priority": 3, "preemptionPolicy": "PreemptLowerPriority"},
            ("c", 3, "PreemptLowerPriority"),
        ),
    },
)
async def test_pod_priority(
    api: Api, classes: list[dict[str, Any]], spec: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    for storage_class in classes:
        await api.create(CLASSES, storage_class)
    answer = await api.post(PODS, a_pod(**spec))
    assert answer.status == 201, answer.text
    pod_spec = answer.body["spec"]
    assert (pod_spec.get("priorityClassName"), pod_spec["priority"], pod_spec["preemptionPolicy"]) == expected


@cases(
    "spec, why",
    {
        "missing": ({"priorityClassName": "none"}, 'pods "p" is forbidden: no PriorityClass with name none was found'),
        "a number of one's own": (
            {"priority": 5},
            'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority '
            "admission controller computed 0 from the given PriorityClass name",
        ),
        "a policy of one's own": (
            {"preemptionPolicy": "Never"},
            'pods "p" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; '
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    },
)
async def test_rejected_pods(api: Api, spec: dict[str, Any], why: str) -> None:
    answer = await api.post(PODS, a_pod(**spec))
    assert (answer.status, answer.body["message"]) == (403, why)


async def test_only_one_global_default(api: Api) -> None:
    await api.create(CLASSES, DEFAULT)
    answer = await api.post(CLASSES, a_class("other", 8, globalDefault=True))
    assert answer.status == 403
    assert answer.body["message"].endswith(
        "PriorityClass usual is already marked as default. Only one default can exist"
    )


async def test_system_classes_cannot_be_deleted(api: Api) -> None:
    await api.create(CLASSES, a_class("system-node-critical", 2000001000))
    answer = await api.delete(f"{CLASSES}/system-node-critical")
    assert (answer.status, answer.message) == (
        403,
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and '
        "cannot be deleted",
    )
