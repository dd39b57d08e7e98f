"""Webhooks whose server runs in a simulated pod, in front of the Service that the controllers keep up."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.plane.running import running

from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

NAMESPACE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POD = {
    "metadata": {"name": "op-1", "labels": {"app": "op"}},
    "spec": {"containers": [{"name": "c", "image": "op:1.0"}]},
}
SERVICE = {
    "metadata": {"name": "op"},
    "spec": {"selector": {"app": "op"}, "ports": [{"port": 443, "targetPort": 9443}]},
}
CONFIGURATION = {
    "metadata": {"name": "w"},
    "webhooks": [
        {
            "name": "v.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "op"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        }
    ],
}


async def post(client: Client, path: str, body: dict[str, Any]) -> None:
    await client.request("POST", path, body=msgspec.json.encode(body), headers={"content-type": "application/json"})


async def test_the_call_fails_at_once_and_says_why(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=1))
    async with running(plane):
        client = plane.client()
        await post(client, f"{NAMESPACE}/pods", POD)
        await post(client, f"{NAMESPACE}/services", SERVICE)
        await asyncio.sleep(10.0)
        await post(client, VALIDATING, CONFIGURATION)
        started_at = env.monotonic()
        with pytest.raises(ApiError) as raised:
            await post(client, f"{NAMESPACE}/configmaps", {"metadata": {"name": "c"}})
        assert env.monotonic() - started_at < 1.0
        assert str(raised.value) == (
            'Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: Post '
            '"https://op.default.svc:443/?timeout=10s": pod "op-1" runs on the simulated node "node-0", where no '
            "process is behind a container: a webhook that runs elsewhere needs a url in its clientConfig, or an "
            "EndpointSlice with its address"
        )
        # The EndpointSlice of the documentation, beside that of the controller.
        beside = {
            "metadata": {"name": "op-outside", "labels": {"kubernetes.io/service-name": "op"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.10"]}],
            "ports": [{"name": "", "port": 9443}],
        }
        await post(client, SLICES, beside)
        await asyncio.sleep(60.0)
        with pytest.raises(ApiError, match="this event loop has no network"):
            await post(client, f"{NAMESPACE}/configmaps", {"metadata": {"name": "c"}})
