"""The claim for extended resources, after upstream's ``extendeddynamicresources_test.go`` (v1.36)."""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.api.resource import DeviceClass
from pilothouse.scheduler.plugins.dynamic_resources.device_class_resolver import DeviceClassResolver
from pilothouse.scheduler.plugins.dynamic_resources.extended_resources import (
    create_requests_and_mappings,
    is_dra_extended_resource_name,
)

GPU, NIC = "example.com/gpu", "example.com/nic"
CLASSES = {GPU: "gpu", NIC: "nic"}


def container(name: str, *, restart: str = "", **counts: str) -> dict[str, Any]:
    requests = {{"gpu": GPU, "nic": NIC}.get(key, key): count for key, count in counts.items()}
    return {"name": name, "resources": {"requests": requests}, **({"restartPolicy": restart} if restart else {})}


@cases(
    "init_containers, containers, requests, mappings",
    {
        "one container": ([], [container("a", gpu="2")], ["0-0 gpu 2"], ["a gpu 0-0"]),
        "cpu is counted for the number of a request": (
            [],
            [container("a", cpu="1", gpu="1", nic="1")],
            ["0-1 gpu 1", "0-2 nic 1"],
            ["a gpu 0-1", "a nic 0-2"],
        ),
        "each container has a request": (
            [],
            [container("a", gpu="1"), container("b"), container("c", gpu="3")],
            ["0-0 gpu 1", "2-0 gpu 3"],
            ["a gpu 0-0", "c gpu 2-0"],
        ),
        "zero": ([], [container("a", gpu="0")], [], []),
        "an init container uses what containers have later": (
            [container("i", gpu="1")],
            [container("a", gpu="2")],
            ["1-0 gpu 2"],
            ["a gpu 1-0", "i gpu 1-0"],
        ),
        "an init container that needs more": (
            [container("i", gpu="3")],
            [container("a", gpu="2")],
            ["0-0 gpu 1", "1-0 gpu 2"],
            ["a gpu 1-0", "i gpu 1-0", "i gpu 0-0"],
        ),
        "the largest of several init containers": (
            [container("i", gpu="1"), container("j", gpu="4")],
            [container("a")],
            ["1-0 gpu 4"],
            ["i gpu 1-0", "j gpu 1-0"],
        ),
        "a sidecar is there for later init containers only": (
            [container("i", gpu="1"), container("s", restart="Always", gpu="1"), container("j", gpu="1")],
            [container("a")],
            ["1-0 gpu 1", "2-0 gpu 1"],
            ["s gpu 1-0", "i gpu 1-0", "j gpu 2-0"],
        ),
    },
)
def test_requests_and_mappings(
    init_containers: list[Any], containers: list[Any], requests: list[str], mappings: list[str]
) -> None:
    pod = msgspec.convert({"spec": {"initContainers": init_containers, "containers": containers}}, Pod)
    found, mapped = create_requests_and_mappings(pod, (GPU, NIC), CLASSES.get)

    def number(name: str) -> str:
        return name.removeprefix("container-").replace("-request-", "-")

    assert [
        f"{number(one.name)} {one.exactly.device_class_name} {one.exactly.count}" for one in found if one.exactly
    ] == requests
    assert [
        f"{one.container_name} {one.resource_name.partition('/')[2]} {number(one.request_name)}" for one in mapped
    ] == mappings


@cases(
    "name, expected",
    {
        "with a domain": (GPU, True),
        "of a class": ("deviceclass.resource.kubernetes.io/gpu", True),
        "native": ("cpu", False),
        "of Kubernetes": ("x.kubernetes.io/y", False),
        "of a quota": ("requests.example.com/gpu", False),
    },
)
def test_names(name: str, expected: bool) -> None:
    assert is_dra_extended_resource_name(name) == expected


def device_class(name: str, resource: str = "", hour: int = 1) -> DeviceClass:
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T{hour:02}:00:00Z"}
    return msgspec.convert({"metadata": metadata, "spec": {"extendedResourceName": resource}}, DeviceClass)


def resolved(resolver: DeviceClassResolver, resource: str = GPU) -> str:
    found = resolver.device_class(resource)
    return found.metadata.name if found is not None else ""


def test_the_newest_class_backs_a_resource_then_the_first_by_name() -> None:
    resolver = DeviceClassResolver()
    resolver.update(None, device_class("b", GPU))
    resolver.update(None, device_class("c", GPU))
    assert resolved(resolver) == "b"
    resolver.update(None, device_class("a", GPU))
    assert resolved(resolver) == "a"
    resolver.update(None, device_class("z", GPU, hour=2))
    assert resolved(resolver) == "z"


def test_every_class_backs_a_resource_of_its_name() -> None:
    resolver = DeviceClassResolver()
    first = device_class("a")
    resolver.update(None, first)
    own = "deviceclass.resource.kubernetes.io/a"
    assert resolved(resolver, own) == "a"
    changed = device_class("a", GPU)
    resolver.update(first, changed)
    assert (resolved(resolver), resolved(resolver, own)) == ("a", "a")
    resolver.update(changed, device_class("a", NIC))
    assert (resolved(resolver), resolved(resolver, NIC)) == ("", "a")
    resolver.remove(device_class("a", NIC))
    assert not resolver
