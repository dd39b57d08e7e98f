"""What is newer than v1.20 of StatefulSets, revisions, budgets, priorities and leases (kubernetes v1.36)."""

import copy
from typing import Any

import pytest
from tests.apiserver.api import LEASES, Answer, Api, Object

from pilothouse.apiserver.options import ServerOptions
from pilothouse.env import Env

APPS = "/apis/apps/v1/namespaces/default/"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLAIM: Object = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SET: Object = {
    "serviceName": "s",
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
    "volumeClaimTemplates": [CLAIM],
}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
CLAIMS = "spec.volumeClaimTemplates[0].spec"
UNAVAILABLE = "spec.updateStrategy.rollingUpdate.maxUnavailable"
NONE = [("spec.volumeClaimTemplates[0].spec.accessModes", "Required value: at least 1 access mode is required")]


def _causes(answer: Answer) -> list[tuple[str, str]]:
    return [(each["field"], each["message"]) for each in answer.body.get("details", {}).get("causes", ())]


def _rolling(unavailable: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        pytest.param({"serviceName": "A"}, [("spec.serviceName", f'Invalid value: "A": {LABEL}')], id="its service"),
        pytest.param(
            {"volumeClaimTemplates": [{**CLAIM, "spec": {"storageClassName": "fast"}}]},
            [*NONE, (f"{CLAIMS}.resources[storage]", "Required value")],
            id="claims that nobody could make",
        ),
        pytest.param(_rolling(0), [(UNAVAILABLE, "Invalid value: 0: cannot be 0")], id="no pod may be missing"),
        pytest.param(
            _rolling("101%"),
            [(UNAVAILABLE, 'Invalid value: "101%": must not be greater than 100%')],
            id="more than all",
        ),
        pytest.param(
            {"ordinals": {"start": -1}, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Keep"}},
            [
                (
                    "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
                    'Unsupported value: "Keep": supported values: "Retain", "Delete"',
                ),
                ("spec.ordinals.start", "Invalid value: -1: must be greater than or equal to 0"),
            ],
            id="where it begins, what it leaves",
        ),
    ],
)
async def test_what_stateful_sets_may_not_be(env: Env, spec: Object, told: list[tuple[str, str]]) -> None:
    api = Api(env, ServerOptions(gates=("MaxUnavailableStatefulSet",)))
    assert _causes(await api.post(f"{APPS}statefulsets", {"metadata": {"name": "s"}, "spec": {**SET, **spec}})) == told


@pytest.mark.parametrize(("gates", "kept"), [((), None), (("MaxUnavailableStatefulSet",), 2)])
async def test_max_unavailable_of_a_stateful_set_is_behind_a_gate(
    env: Env, gates: tuple[str, ...], kept: int | None
) -> None:
    api = Api(env, ServerOptions(gates=gates))
    made = await api.post(f"{APPS}statefulsets", {"metadata": {"name": "s"}, "spec": {**SET, **_rolling(2)}})
    for answer in [made, await api.patch(f"{APPS}statefulsets/s", {"spec": _rolling(2)})]:
        assert answer.body["spec"]["updateStrategy"]["rollingUpdate"].get("maxUnavailable") == kept
        assert "f:maxUnavailable" in answer.text, "who sent it owns it"


async def test_what_was_wrong_of_a_stateful_set_before_it_was_judged_may_stay(api: Api) -> None:
    path, key = f"{APPS}statefulsets", "apps/statefulsets/default/s"
    await api.made(path, {"metadata": {"name": "s"}, "spec": SET})
    await api.rewrite(key, '"serviceName":"s"', '"serviceName":"S"')
    first = await api.patch(f"{path}/s", {"spec": {"replicas": 3}})
    await api.rewrite(key, '"ReadWriteOnce"', '"Other"')
    *fine, bad = [first, *[await api.patch(f"{path}/s", {"spec": {"replicas": count}}) for count in (4, -1)]]
    assert [answer.status for answer in fine] == [200, 200]
    assert _causes(bad) == [("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(None, "Required value: data is mandatory", id="nothing"),
        pytest.param([], "Required value: data must be a valid JSON object", id="a list"),
        pytest.param("x", "Required value: data must be a valid JSON object", id="a text"),
    ],
)
async def test_a_revision_is_of_an_object(api: Api, data: Any, told: str) -> None:

    negative = ("revision", "Invalid value: -1: must be greater than or equal to 0")
    revision = {"metadata": {"name": "r"}, "revision": -1, "data": data}
    assert _causes(await api.post(f"{APPS}controllerrevisions", revision)) == [negative, ("data", told)]


async def test_conditions_and_counts_of_budgets_are_judged(api: Api) -> None:
    condition: Object = {"type": "Sufficient", "status": "Yes", "reason": "a b", "message": ""}
    await api.made(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1}})
    answer = await api.patch(f"{BUDGETS}/b/status", {"status": {"conditions": [condition], "expectedPods": -1}})
    assert [(field, told.partition(":")[0]) for field, told in _causes(answer)] == [
        ("status.conditions[0].status", "Unsupported value"),
        ("status.conditions[0].lastTransitionTime", "Required value"),
        ("status.conditions[0].reason", "Invalid value"),
        ("status.expectedPods", "Invalid value"),
    ]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"value": 7}, "value of system-node-critical PriorityClass must be 2000001000", id="its value"),
        pytest.param(
            {"globalDefault": True}, "globalDefault of system-node-critical PriorityClass must be false", id="a default"
        ),
    ],
)
async def test_classes_of_the_system_are_as_the_system_makes_them(api: Api, change: Object, told: str) -> None:
    name = "system-node-critical"
    await api.delete(f"{CLASSES}/{name}")
    made = {"metadata": {"name": name}, "value": 2_000_001_000}
    refused = await api.post(CLASSES, {**made, **change})
    status = (await api.post(CLASSES, made)).status
    assert [(field, text.rpartition(": ")[2]) for field, text in _causes(refused)] == [("metadata.name", told)]
    assert status == 201


async def test_leases_have_no_coordinated_election(api: Api) -> None:
    """Its gate is off in v1.36: what is said of it is dropped, also when it is wrong."""
    lease: Object = {
        "metadata": {"name": "l"},
        "spec": {"strategy": "X", "preferredHolder": "b", "holderIdentity": "a"},
    }
    made = await api.made(LEASES, copy.deepcopy(lease))
    changed = await api.patch(f"{LEASES}/l", {"spec": {"preferredHolder": "c"}})
    assert [made["spec"], changed.body["spec"]] == [{"holderIdentity": "a"}] * 2
