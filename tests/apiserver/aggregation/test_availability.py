"""The Available condition of APIServices: texts of kube-aggregator v0.36."""

import asyncio
from typing import Any

from tests.apiserver.api import Api, Object
from tests.controllermanager.metric_table import total
from tests.tables import cases

from pilothouse.apiserver.aggregation.availability import available_condition
from pilothouse.apiserver.metrics import ServerMetrics

SPEC: Object = {"group": "g.example.com", "version": "v1", "service": {"namespace": "ns", "name": "s", "port": 443}}
SERVICE: Object = {"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": 443}]}}
READY: Object = {"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "https", "port": 8443}]}
"""No word of readiness counts as ready."""
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


@cases(
    "spec, service, slices, reason, message",
    {
        "this server": ({}, None, [], "Local", "Local APIServices are always available"),
        "missing service": (SPEC, None, [], "ServiceNotFound", 'service/s in "ns" is not present'),
        "missing service port": (
            SPEC,
            {"spec": {"ports": [{"port": 80}]}},
            [],
            "ServicePortError",
            'service/s in "ns" is not listening on port 443',
        ),
        "no slices": (SPEC, SERVICE, [], "EndpointsNotFound", 'cannot find endpointslices for service/s in "ns"'),
        "no ready endpoint at the port": (
            SPEC,
            SERVICE,
            [{**READY, "endpoints": [{"conditions": {"ready": False}}]}, {**READY, "ports": [{"name": "", "port": 1}]}],
            "MissingEndpoints",
            'endpointslices for service/s in "ns" have no addresses with port name "https"',
        ),
        "ready endpoint, but APIServices are not proxied": (
            SPEC,
            SERVICE,
            [READY],
            "FailedDiscoveryCheck",
            'this API server does not proxy requests, including those to service/s in "ns"',
        ),
        "ExternalName service, but APIServices are not proxied": (
            SPEC,
            {"spec": {"type": "ExternalName"}},
            [],
            "FailedDiscoveryCheck",
            'this API server does not proxy requests, including those to service/s in "ns"',
        ),
    },
)
def test_available_condition(spec: Object, service: Any, slices: list[Object], reason: str, message: str) -> None:
    condition = available_condition(spec, service, slices)
    assert (condition.reason, condition.message) == (reason, message)
    assert condition.is_true is (reason == "Local")


async def test_false_insecure_skip_tls_verify_is_omitted(api: Api) -> None:
    spec = {**SPEC, "insecureSkipTLSVerify": False, "groupPriorityMinimum": 1, "versionPriority": 1}
    created = await api.create(API_SERVICES, {"metadata": {"name": "v1.g.example.com"}, "spec": spec})
    assert "insecureSkipTLSVerify" not in created["spec"]


async def test_condition_follows_the_service(started_api: Api) -> None:
    observed = []

    async def observe() -> None:
        await asyncio.sleep(1)
        obj = (await started_api.get(f"{API_SERVICES}/v1.g.example.com")).body
        [condition] = obj["status"]["conditions"]
        observed.append((condition["reason"], condition["lastTransitionTime"]))

    backend = {"namespace": "default", "name": "s"}
    spec = {**SPEC, "service": backend, "groupPriorityMinimum": 1, "versionPriority": 1}
    await started_api.create(API_SERVICES, {"metadata": {"name": "v1.g.example.com"}, "spec": spec})
    await observe()
    services = "/api/v1/namespaces/default/services"
    await started_api.create(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 443}]}})
    await observe()
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    labels = {"kubernetes.io/service-name": "s"}
    ready = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "", "port": 1}]}
    await started_api.create(slices, {"metadata": {"name": "s-1", "labels": labels}, **ready})
    await observe()
    await started_api.delete(f"{services}/s")
    await observe()
    reasons = ["ServiceNotFound", "EndpointsNotFound", "FailedDiscoveryCheck", "ServiceNotFound"]
    assert [reason for reason, _ in observed] == reasons
    assert len({since for _, since in observed}) == 1, "it was never available, so that it has not changed since"


async def test_availability_metrics(started_api: Api) -> None:
    core = started_api.server.core
    core.metrics = metrics = ServerMetrics(core.env.perf_counter, core.store, lambda: core.table)
    name, spec = "v1.g.example.com", {"group": "g.example.com", "version": "v1"}
    priorities = {"groupPriorityMinimum": 1, "versionPriority": 1}

    async def counted() -> tuple[float, float]:
        await asyncio.sleep(1)
        page = metrics.response().body.decode()
        reason = {"name": name, "reason": "ServiceNotFound"}
        return (
            total(page, "aggregator_unavailable_apiservice", name=name),
            total(page, "aggregator_unavailable_apiservice_total", **reason),
        )

    await started_api.create(API_SERVICES, {"metadata": {"name": name}, "spec": {**spec, **priorities}})
    assert await counted() == (0, 0)
    patch = {"spec": {"service": SPEC["service"]}}
    answer = await started_api.patch(f"{API_SERVICES}/{name}", patch)
    assert answer.status == 200
    assert await counted() == (1, 1)
    await started_api.delete(f"{API_SERVICES}/{name}")
    assert await counted() == (0, 1)
