"""pods/ephemeralcontainers, pods/resize, pods/log and connect subresources (facts from kube-apiserver v1.36.2)."""

import datetime
from collections.abc import Mapping
from typing import Any

import pytest
from tests.apiserver.api import MERGE, PODS, STRATEGIC, Answer, Api, Object, pod
from tests.tables import cases

from pilothouse.api.logs import ContainerLog, LogLine
from pilothouse.api.wire import Request
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.request_info import RequestInfo

NODES = "/api/v1/nodes"
DEBUGGER = {"name": "d", "image": "busybox", "targetContainerName": "c"}


def _debugged(*containers: Object) -> Object:
    return {"spec": {"ephemeralContainers": list(containers)}}


async def test_ephemeral_container_is_added_and_increments_the_generation(api: Api) -> None:
    await api.create(PODS, pod())
    answer = await api.patch(PODS + "/p/ephemeralcontainers", _debugged(DEBUGGER), STRATEGIC)
    assert answer.status == 200, answer.text
    assert answer.meta["generation"] == 2
    assert answer.body["spec"]["ephemeralContainers"] == [
        {
            "name": "d",
            "image": "busybox",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
            "targetContainerName": "c",
        }
    ]


@cases(
    "wanted, message",
    {
        "removed container": (
            [],
            'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed\n',
        ),
        "changed": (
            [{**DEBUGGER, "image": "other"}],
            'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed\n'
            '@@ -1,6 +1,6 @@\n {\n  "Name": "d",\n- "Image": "busybox",\n+ "Image": "other",\n  "Command": null,\n'
            '  "Args": null,\n  "WorkingDir": "",\n',
        ),
        "missing targetContainerName": (
            [DEBUGGER, {"name": "e", "image": "x", "targetContainerName": "z"}],
            'spec.ephemeralContainers[1].targetContainerName: Not found: "z"',
        ),
        "named like another": (
            [DEBUGGER, {"name": "c", "image": "x"}],
            'spec.ephemeralContainers[1].name: Duplicate value: "c"',
        ),
        "with ports": (
            [DEBUGGER, {"name": "e", "image": "x", "ports": [{"containerPort": 1}]}],
            "spec.ephemeralContainers[1].ports: Forbidden: cannot be set for an Ephemeral Container",
        ),
    },
)
async def test_rejected_ephemeral_containers(api: Api, wanted: list[Object], message: str) -> None:
    await api.create(PODS, pod())
    await api.patch(PODS + "/p/ephemeralcontainers", _debugged(DEBUGGER))
    answer = await api.patch(PODS + "/p/ephemeralcontainers", _debugged(*wanted), MERGE)
    assert (answer.status, answer.message) == (422, f'Pod "p" is invalid: {message}')


async def test_ephemeralcontainers_changes_nothing_else(api: Api) -> None:
    created = await api.create(PODS, pod())
    body = {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}}
    body["spec"] = {**created["spec"], "nodeName": "n9", "ephemeralContainers": [DEBUGGER]}
    result = (await api.put(PODS + "/p/ephemeralcontainers", body)).body
    assert "labels" not in result["metadata"]
    assert {**result["spec"], "ephemeralContainers": None} == {**created["spec"], "ephemeralContainers": None}
    assert "ephemeralContainers" in result["spec"]


# Resize


def _sized(**resources: Object) -> Object:
    return pod(containers=[{"name": "c", "image": "nginx:1", "resources": resources}])


def _resize(**resources: Object) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


async def test_cpu_and_memory_are_resized(api: Api) -> None:
    await api.create(PODS, _sized(requests={"cpu": "100m"}))
    answer = await api.patch(PODS + "/p/resize", _resize(requests={"cpu": "200m"}), STRATEGIC)
    assert answer.status == 200, answer.text
    assert answer.body["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "200m"}}
    assert answer.meta["generation"] == 2


@cases(
    "wanted, message",
    {
        "changed QoS class": (
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m", "memory": "1Gi"}},
            'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
        ),
        "resource other than cpu and memory": (
            {"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}},
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        "removed request": (
            {"requests": {"cpu": None, "memory": "1Gi"}},
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
    },
)
async def test_rejected_resizes(api: Api, wanted: Object, message: str) -> None:
    await api.create(PODS, _sized(requests={"cpu": "100m", "memory": "1Gi"}))
    if "limits" in wanted:
        wanted["requests"]["memory"] = "1Gi"
    answer = await api.patch(PODS + "/p/resize", _resize(**wanted), STRATEGIC)
    assert (answer.status, answer.message) == (422, f'Pod "p" is invalid: {message}')


def _init(**changes: Any) -> Object:
    return {"initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "1"}}, **changes}]}


_RUNNING = {"containerStatuses": [{"name": "c", "image": "i", "state": {"running": {}}}]}
_CLAIMED: Object = {
    "resourceClaims": [{"name": "a", "resourceClaimName": "a"}],
    "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "a"}]}}],
}
_TIGHT = {"requests": {"cpu": "1", "memory": "1Gi"}}


@cases(
    "spec, status, wanted, error",
    {
        "windows pod": (
            {"os": {"name": "windows"}},
            {},
            {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            ["[]: Forbidden: windows pods cannot be resized"],
        ),
        "node without support for resize": (
            {},
            _RUNNING,
            {},
            ["spec: Forbidden: Pod running on node without support for resize"],
        ),
        "an init container": (
            _init(),
            {},
            {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]},
            [],
        ),
        "ephemeral storage of a sidecar": (
            _init(restartPolicy="Always"),
            {},
            {"initContainers": [{"name": "i", "resources": {"requests": {"cpu": None, "ephemeral-storage": "1Gi"}}}]},
            [
                'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
                "spec.initContainers[0].resources.requests: Forbidden: resource requests cannot be removed",
                "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are "
                "mutable",
            ],
        ),
        "pod-level cpu": ({"resources": _TIGHT}, {}, {"resources": {"requests": {"cpu": "2"}}}, []),
        "pod-level hugepages": (
            {"resources": _TIGHT},
            {},
            {"resources": {"requests": {"memory": None, "hugepages-2Mi": "2Mi"}, "limits": {"hugepages-2Mi": "2Mi"}}},
            [
                "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed",
                "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
            ],
        ),
        "resource claims": (_CLAIMED, {}, {}, ["spec: Forbidden: only cpu and memory resources are mutable"]),
    },
)
async def test_resizable_fields(api: Api, spec: Object, status: Object, wanted: Object, error: list[str]) -> None:
    await api.create(PODS, pod(**spec))
    if status:
        patched = await api.patch(PODS + "/p/status", {"status": status}, STRATEGIC)
        assert patched.status == 200, patched.text
    causes = ((await api.patch(PODS + "/p/resize", {"spec": wanted}, STRATEGIC)).body.get("details") or {}).get(
        "causes"
    ) or []
    assert [f"{cause['field']}: {cause['message']}" for cause in causes] == error


async def test_resize_ignores_other_fields(api: Api) -> None:
    await api.create(PODS, pod())
    body = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
    answer = await api.patch(PODS + "/p/resize", body, STRATEGIC)
    assert (answer.status, answer.body["spec"]["containers"][0]["image"]) == (200, "nginx:1.25")


# Logs

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def _log(pod: Mapping[str, Any], container: str, previous: bool) -> ContainerLog | None:
    if pod["spec"]["nodeName"] != "n1":
        return None
    if previous:
        return ContainerLog(error=f'previous terminated container "{container}" in pod "p" not found')
    lines = [LogLine(START + datetime.timedelta(seconds=n), f"{container} {n}") for n in range(-3, 1)]
    return ContainerLog(lines=lines, ended=True)


async def _logged(api: Api, query: str = "", **more: Any) -> Answer:
    api.server.core.pod_logs = _log
    await api.create(NODES, {"metadata": {"name": "n1"}})
    await api.create(NODES, {"metadata": {"name": "n2"}})
    await api.create(PODS, pod(**{"nodeName": "n1", **more}))
    return await api.get(f"{PODS}/p/log{query}")


@cases(
    "query, text",
    {
        "all lines": ("", "c -3\nc -2\nc -1\nc 0\n"),
        "the last line": ("?tailLines=1", "c 0\n"),
        "tailLines 0": ("?tailLines=0", ""),
        "sinceSeconds": ("?sinceSeconds=1", "c -1\nc 0\n"),
        "since a time": ("?sinceTime=2025-12-31T23:59:59Z", "c -1\nc 0\n"),
        "limitBytes": ("?limitBytes=6", "c -3\nc"),
        "timestamps": ("?tailLines=1&timestamps=true", "2026-01-01T00:00:00.000000000Z c 0\n"),
        "follow": ("?follow=true&container=c&tailLines=2", "c -1\nc 0\n"),
    },
)
async def test_log_options(api: Api, query: str, text: str) -> None:
    answer = await _logged(api, query)
    assert (answer.status, answer.headers["content-type"], answer.text) == (200, "text/plain", text)


TWO = [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]


@cases(
    "more, query, code, message",
    {
        "unscheduled pod: no content": ({"nodeName": ""}, "", 204, ""),
        "unknown container": ({}, "?container=z", 400, "container z is not valid for pod p"),
        "one of several containers": (
            {"containers": TWO},
            "",
            400,
            "a container name must be specified for pod p, choose one of: [a b]",
        ),
        "one of several containers and init containers": (
            {"containers": TWO, "initContainers": [{"name": "i", "image": "x"}]},
            "",
            400,
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
        ),
        "pod on a missing node": ({"nodeName": "n3"}, "", 404, 'pods "n3" not found'),
        "pod on a node that is not simulated": (
            {"nodeName": "n2"},
            "",
            500,
            'Internal error occurred: node "n2" is not simulated here: there is no kubelet to ask',
        ),
        "previous without a terminated container": (
            {},
            "?previous=true",
            400,
            'previous terminated container "c" in pod "p" not found',
        ),
        "since two times": (
            {},
            "?sinceSeconds=1&sinceTime=2025-12-31T23:59:59Z",
            422,
            'PodLogOptions "p" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be '
            "specified",
        ),
        "fewer than no lines": (
            {},
            "?tailLines=-1",
            422,
            'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
        ),
    },
)
async def test_rejected_log_requests(api: Api, more: Object, query: str, code: int, message: str) -> None:
    answer = await _logged(api, query, **more)
    assert (answer.status, answer.message) == (code, message)


async def test_log_follow_ends_with_the_container(api: Api) -> None:
    def log(pod: Mapping[str, Any], _container: str, _previous: bool) -> ContainerLog:
        labels = pod["metadata"].get("labels") or {}
        lines = [LogLine(START, f"line {n}") for n in range(int(labels.get("lines", "1")))]
        return ContainerLog(lines=lines, ended="ended" in labels)

    await _logged(api)
    api.server.core.pod_logs = log
    stream = await api.transport.open(Request("GET", PODS + "/p/log?follow=true"))
    pieces = stream.__aiter__()
    chunks = [await pieces.__anext__()]
    await api.patch(PODS + "/p", {"metadata": {"labels": {"lines": "3"}}})
    chunks.append(await pieces.__anext__())
    await api.patch(PODS + "/p", {"metadata": {"labels": {"lines": "4", "ended": ""}}})
    assert (chunks + [piece async for piece in pieces]) == [b"line 0\n", b"line 1\nline 2\n", b"line 3\n"]


# exec, attach and port-forward


@cases(
    "target, more, headers, code, message",
    {
        "exec without a node": ("p/exec", {}, {}, 400, "pod p does not have a host assigned"),
        "exec in an unknown container": ("p/exec?container=z", {}, {}, 400, "container z is not valid for pod p"),
        "attach on a missing node": ("p/attach", {"nodeName": "n3"}, {}, 404, 'pods "n3" not found'),
        "exec without an upgrade": ("p/exec", {"nodeName": "n1"}, {}, 400, "Upgrade request required"),
        "exec": (
            "p/exec",
            {"nodeName": "n1"},
            {"connection": "Upgrade", "upgrade": "SPDY/3.1"},
            501,
            'exec is not possible: pod "p" runs on the simulated node "n1", where no process is behind a container',
        ),
        "port-forward": (
            "p/portforward",
            {"nodeName": "n1", "containers": TWO},
            {"connection": "Upgrade", "upgrade": "SPDY/3.1"},
            501,
            'portforward is not possible: pod "p" runs on the simulated node "n1", where no process is behind a '
            "container",
        ),
        "proxy to a pod without an address": ("p:80/proxy/x", {}, {}, 400, "address not allowed"),
    },
)
async def test_exec_attach_and_portforward_are_rejected(
    api: Api, target: str, more: Object, headers: dict[str, str], code: int, message: str
) -> None:
    await api.create(NODES, {"metadata": {"name": "n1"}})
    await api.create(PODS, pod(**more))
    answer = await api.request("GET", f"{PODS}/{target}", **headers)
    assert (answer.status, answer.message) == (code, message)


@pytest.mark.parametrize("target", ["exec", "attach", "portforward"])
async def test_exec_by_get_requires_create(api: Api, target: str) -> None:
    requests: list[tuple[str, str]] = []

    def authorize(_identity: Identity, info: RequestInfo) -> None:
        requests.append((info.verb, info.subresource))

    await api.create(PODS, pod())
    api.server.authorize = authorize
    await api.get(f"{PODS}/p/{target}")
    await api.get(f"{PODS}/p/log")
    assert requests == [("get", target), ("create", target), ("get", "log")]


async def test_service_proxy_is_unavailable(api: Api) -> None:
    services = "/api/v1/namespaces/default/services"
    await api.create(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    unauthenticated = await api.get(services + "/s:80/proxy/")
    missing = await api.get(services + "/t/proxy")
    assert (unauthenticated.status, unauthenticated.message) == (503, 'no endpoints available for service "s"')
    assert (missing.status, missing.message) == (404, 'services "t" not found')
