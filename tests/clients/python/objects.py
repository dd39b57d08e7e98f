"""Common parts of the client scenarios: objects, and waiting.

A scenario is a program: it asserts, and ends with 0 when everything held. ``request_restart`` is how it has the server
restarted (``tests/clients/python/server.py``).
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

Doc = dict[str, Any]
WATCHED = {"watched": "yes"}
LOG = ["first", "second"]
"""The log of a pod."""


def config_map(name: str, labels: Doc | None = None, **data: str) -> Doc:
    """A config map."""
    metadata: Doc = {"name": name}
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str) -> Doc:
    """A pod that terminates quickly."""
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "nginx"}]}
    metadata = {
        "name": name,
        "labels": {"app": name},
        "annotations": {"simulated.pilothouse.dev/log": "\n".join(LOG)},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def replica_set(name: str, replicas: int) -> Doc:
    """A ReplicaSet of such pods."""
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


def definition(plural: str, kind: str) -> Doc:
    """A CustomResourceDefinition with a status subresource: ``size`` of at least 1 in its spec, any status."""
    size = {"type": "integer", "minimum": 1}
    properties = {
        "spec": {"type": "object", "required": ["size"], "properties": {"size": size}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version],
        },
    }


def custom(kind: str, name: str, size: int) -> Doc:
    """An object of this kind."""
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": {"size": size}}


def until(condition: Callable[[], object], description: str, seconds: float = 20.0) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never true within {seconds} s: {description}"
        time.sleep(0.03)


def request_restart() -> None:
    """Restart the server, and wait for it. Afterwards ``leaves`` is deleted and ``comes`` created."""
    print("RESTART", flush=True)
    assert sys.stdin.readline(), "nobody restarts the server"


async def until_async(
    condition: Callable[[], object] | Callable[[], Awaitable[object]], description: str, seconds: float = 20.0
) -> None:
    """Wait until the condition, possibly a coroutine function, is true."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if await result if isinstance(result, Awaitable) else result:
            return
        assert time.monotonic() < deadline, f"never true within {seconds} s: {description}"
        await asyncio.sleep(0.03)
