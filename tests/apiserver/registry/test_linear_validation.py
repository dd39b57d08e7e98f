"""Validation is linear in the size of an object, in its valid and in its invalid parts.

Measured in processor time; each case took seconds when it compared every item with every other.
"""

import time
from typing import Any

from tests.apiserver.api import PODS, Api, pod
from tests.tables import cases

_MANY = 15_000
_QUOTAS = "/api/v1/namespaces/default/resourcequotas"
_CLAIMS = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": "c"}} for number in range(_MANY)]


@cases(
    "path, fields",
    {
        "claims of volumes": (PODS, pod(volumes=_CLAIMS)),
        "scheduling gates": (PODS, pod(schedulingGates=[{"name": f"g{number}"} for number in range(_MANY)])),
        "environment": (
            PODS,
            pod(
                containers=[
                    {"name": "c", "image": "x", "env": [{"name": f"E{n}", "value": "$(E1)"} for n in range(_MANY)]}
                ]
            ),
        ),
        # The last one is a duplicate: so many valid ones are too large for the store.
        "topology spread constraints": (
            PODS,
            pod(
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": f"k{number % (_MANY - 1)}", "whenUnsatisfiable": "ScheduleAnyway"}
                    for number in range(_MANY)
                ]
            ),
        ),
        "tolerations of a runtime class": (
            "/apis/node.k8s.io/v1/runtimeclasses",
            {
                "metadata": {"name": "r"},
                "handler": "h",
                "scheduling": {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(_MANY)]},
            },
        ),
        "unsupported scopes": (
            _QUOTAS,
            {"metadata": {"name": "q"}, "spec": {"scopes": [f"s{number}" for number in range(_MANY)]}},
        ),
        "misapplied scopes": (
            _QUOTAS,
            {
                "metadata": {"name": "q"},
                "spec": {
                    "hard": {f"count/r{number}.example.com": "1" for number in range(1000)} | {"services": "1"},
                    "scopeSelector": {
                        "matchExpressions": [{"scopeName": "BestEffort", "operator": "Exists"} for _ in range(_MANY)]
                    },
                },
            },
        ),
        "terms without expressions": (
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": "s"}, "provisioner": "p", "allowedTopologies": [{} for _ in range(_MANY)]},
        ),
    },
)
async def test_validation_is_linear(api: Api, path: str, fields: dict[str, Any]) -> None:
    began = time.process_time()
    answer = await api.post(path, fields)
    assert time.process_time() - began < 2.0
    assert answer.status in (201, 422) or "etcdserver: request is too large" in answer.text
    assert len(answer.text) < 20 * 1024 * 1024


async def test_errors_that_show_a_large_value_are_limited(api: Api) -> None:
    answer = await api.post(
        _QUOTAS, {"metadata": {"name": "q"}, "spec": {"scopes": [f"s{number}" for number in range(5000)]}}
    )
    assert answer.message.endswith("more errors]")
    assert len(answer.body["details"]["causes"]) > 10
