"""pods/eviction against disruption budgets (facts from kube-apiserver v1.36.2)."""

from typing import Any

import pytest
from tests.apiserver.api import PODS, Answer, Api, Object, pod
from tests.apiserver.test_long_work import Worker
from tests.tables import cases

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.admission.dynamic.object_replacement import replace_object
from pilothouse.apiserver.core import Core

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REJECTED = "Cannot evict pod as it would violate the pod's disruption budget."


def _eviction(name: str = "p", **more: Any) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}


async def _running(api: Api, *, ready: bool = True, phase: str = "Running", **labels: str) -> Object:
    await api.create(PODS, pod(labels=labels or {"app": "x"}, nodeName="n1"))
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return (await api.patch(PODS + "/p/status", {"status": status})).body


async def _budget(api: Api, name: str = "b", spec: Object | None = None, **status: Any) -> None:
    body = {
        "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}, **(spec or {})},
    }
    await api.create(BUDGETS, body)
    known = {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, **status}
    answer = await api.patch(f"{BUDGETS}/{name}/status", {"status": known})
    assert answer.status == 200, answer.text


async def _evict(api: Api, body: Object | None = None, query: str = "") -> Answer:
    return await api.post(f"{PODS}/p/eviction{query}", body or _eviction())


async def test_eviction_without_a_budget_deletes_the_pod_with_a_condition(api: Api) -> None:
    await _running(api)
    answer = await _evict(api)
    obj = (await api.get(PODS + "/p")).body
    assert answer.status == 201
    assert answer.body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert obj["metadata"]["deletionTimestamp"]
    assert obj["metadata"]["deletionGracePeriodSeconds"] == 30
    assert obj["status"]["conditions"][-1] == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


async def test_large_budgets_are_compared_by_the_worker(api: Api) -> None:
    await _running(api)
    requirements = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(800)]
    await _budget(api, spec={"selector": {"matchExpressions": requirements}}, disruptionsAllowed=1)
    worker = Worker()
    api.server.core.long_work.get_worker = lambda: worker
    assert (await _evict(api)).status == 201
    assert "_budgets_that_select" in worker.names


class Records(Plugin):
    """Records requests, and adds a grace period to evictions."""

    def __init__(self, core: Core, changed: Object) -> None:
        self._core = core
        self._changed = changed
        self.seen: list[tuple[str, str, str, str]] = []

    def admit(self, write: AdmissionAttributes) -> None:
        kind = (write.obj or write.old or {}).get("kind", "")
        self.seen.append((write.operation, f"{write.info.resource}/{write.subresource}", write.name, kind))
        if write.subresource == "eviction":
            replace_object(self._core, write, {**(write.obj or {}), **self._changed})


async def test_admission_runs_for_the_eviction_only(api: Api) -> None:
    """Upstream's handler writes and deletes the pod past admission (``addConditionAndDeletePod``, v1.36)."""
    await _running(api)
    core = api.server.core
    records = Records(core, {"deleteOptions": {"gracePeriodSeconds": 7}})
    core.admission.plugins.append(records)
    answer = await _evict(api)
    reviews = records.seen
    meta = (await api.get(PODS + "/p")).meta
    assert answer.status == 201
    assert reviews == [("CREATE", "pods/eviction", "p", "Eviction")]
    assert meta["deletionGracePeriodSeconds"] == 7, "what admission made of the eviction counts"


async def test_eviction_decrements_disruptions_allowed(api: Api) -> None:
    await _running(api)
    await _budget(api, disruptionsAllowed=1)
    code = (await _evict(api)).status
    status = (await api.get(BUDGETS + "/b")).body["status"]
    obj = (await api.get(PODS + "/p")).body
    assert code == 201
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"p": "2026-01-01T00:00:00Z"}
    assert status["conditions"] == [
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "InsufficientPods",
            "message": "",
        }
    ]
    assert obj["metadata"]["deletionTimestamp"]


@cases(
    "status, code, message, cause, retry_after",
    {
        "no disruptions allowed": (
            {"disruptionsAllowed": 0, "currentHealthy": 1},
            429,
            REJECTED,
            "The disruption budget b needs 1 healthy pods and has 1 currently",
            None,
        ),
        "enough pods and yet nothing allowed": (
            {"disruptionsAllowed": 0},
            429,
            REJECTED,
            "The disruption budget b does not allow evicting pods currently",
            None,
        ),
        "sync of the budget failed": (
            {
                "disruptionsAllowed": 0,
                "conditions": [
                    {
                        "type": "DisruptionAllowed",
                        "status": "False",
                        "reason": "SyncFailed",
                        "message": "no scale",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            },
            429,
            REJECTED,
            "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
            None,
        ),
        "a budget that the controller has not seen": (
            {"observedGeneration": 0, "disruptionsAllowed": 1},
            429,
            REJECTED,
            "The disruption budget b is still being processed by the server.",
            "10",
        ),
    },
)
async def test_rejected_evictions(
    api: Api, status: Object, code: int, message: str, cause: str, retry_after: str | None
) -> None:
    await _running(api)
    await _budget(api, **status)
    answer = await _evict(api)
    obj = (await api.get(PODS + "/p")).body
    assert (answer.status, answer.message) == (code, message)
    assert answer.body["reason"] == "TooManyRequests"
    assert answer.body["details"]["causes"] == [{"reason": "DisruptionBudget", "message": cause}]
    assert answer.headers.get("retry-after") == retry_after
    assert "deletionTimestamp" not in obj["metadata"]


@cases(
    "allowed, message",
    {"negative": (-1, 'poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative')},
)
async def test_budget_with_invalid_disruptions_allowed_forbids(api: Api, allowed: int, message: str) -> None:
    await _running(api)
    await _budget(api)
    record = api.store.get("policy/poddisruptionbudgets/default/b")
    assert record is not None
    value = record.value.replace(b'"disruptionsAllowed":0', b'"disruptionsAllowed":%d' % allowed)
    await api.store.commit(api.store.stage(record.key, lambda _revision: value))
    answer = await _evict(api)
    assert (answer.status, answer.message) == (403, message)


async def test_several_budgets_for_one_pod_are_an_error(api: Api) -> None:
    await _running(api)
    await _budget(api, "a", disruptionsAllowed=1)
    await _budget(api, "b", {"selector": {}}, disruptionsAllowed=1)
    answer = await _evict(api)
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        "code": 500,
    }


@cases(
    "policy, healthy, code",
    {
        "unready pod of a healthy application": (None, 2, 201),
        "unready pod of a disrupted application": (None, 0, 429),
        "IfHealthyBudget": ("IfHealthyBudget", 0, 429),
        "always": ("AlwaysAllow", 0, 201),
    },
)
async def test_unhealthy_pod_eviction_policy(api: Api, policy: str | None, healthy: int, code: int) -> None:
    await _running(api, ready=False)
    spec = {} if policy is None else {"unhealthyPodEvictionPolicy": policy}
    await _budget(api, spec=spec, disruptionsAllowed=0, currentHealthy=healthy)
    result = (await _evict(api)).status
    status = (await api.get(BUDGETS + "/b")).body["status"]
    assert result == code
    assert "disruptedPods" not in status


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_terminated_and_pending_pods_ignore_budgets(api: Api, phase: str) -> None:
    await _running(api, phase=phase)
    await _budget(api, disruptionsAllowed=0)
    assert (await _evict(api)).status == 201


async def test_dry_run_changes_nothing_and_is_still_rejected(api: Api) -> None:
    await _running(api)
    await _budget(api, disruptionsAllowed=1)
    first = (await _evict(api, query="?dryRun=All")).status
    second = (await _evict(api, _eviction(deleteOptions={"dryRun": ["All"]}))).status
    stored, status = (await api.get(PODS + "/p")).body, (await api.get(BUDGETS + "/b")).body["status"]
    await api.patch(BUDGETS + "/b/status", {"status": {"disruptionsAllowed": 0}})
    rejected = (await _evict(api, query="?dryRun=All")).status
    assert (first, second, rejected) == (201, 201, 429)
    assert "deletionTimestamp" not in stored["metadata"]
    assert status["disruptionsAllowed"] == 1


@cases(
    "body, code, message",
    {
        "another name": (_eviction("q"), 400, "name in URL does not match name in Eviction object"),
        "uid precondition fails": (
            _eviction(deleteOptions={"preconditions": {"uid": "u"}}),
            409,
            'Operation cannot be fulfilled on Pod "p": the UID in the precondition (u) does not match the UID in',
        ),
        "another kind": ({**_eviction(), "kind": "Pod", "apiVersion": "v1"}, 400, 'Pod in version "v1"'),
    },
)
async def test_rejected_bodies(api: Api, body: Object, code: int, message: str) -> None:
    await _running(api)
    answer = await _evict(api, body)
    assert answer.status == code
    assert answer.message.startswith(message)


async def test_delete_options_grace_period_and_v1beta1(api: Api) -> None:
    await _running(api)
    body = {**_eviction(deleteOptions={"gracePeriodSeconds": 5}), "apiVersion": "policy/v1beta1"}
    assert (await _evict(api, body)).status == 201
    assert (await api.get(PODS + "/p")).meta["deletionGracePeriodSeconds"] == 5


async def test_eviction_of_a_missing_pod_is_not_found(api: Api) -> None:
    answer = await _evict(api)
    assert (answer.status, answer.message) == (404, 'pods "p" not found')
