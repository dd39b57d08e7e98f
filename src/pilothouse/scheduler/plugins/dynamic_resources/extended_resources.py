"""Extended resources that DeviceClasses back: the claim that is made of a pod's requests.

As kube-scheduler v1.36 ``plugins/dynamicresources/extendeddynamicresources.go``. The claim is made for each node, since
nodes may have the resource themselves, from a device plugin.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pilothouse.api.core import Container, Pod
from pilothouse.api.resource import DeviceRequest, ExactDeviceRequest
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.scheduler.plugins.dynamic_resources.device_class_resolver import DEVICE_CLASS_PREFIX
from pilothouse.scheduler.plugins.dynamic_resources.structured.requests import EXACT_COUNT

IN_MEMORY_NAME = "<extended-resources>"
"""The name of a claim that is not written yet. No object can have it."""


class RequestMapping(msgspec.Struct, frozen=True, rename="camel"):
    """Which request of the claim serves a resource of a container (``ContainerExtendedResourceRequest``)."""

    container_name: str
    resource_name: str
    request_name: str


def is_dra_extended_resource_name(name: str) -> bool:
    """Whether a class may back the resource (``IsDRAExtendedResourceName``), which has a valid name."""
    if name.startswith(DEVICE_CLASS_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def create_requests_and_mappings(
    pod: Pod, resources: Iterable[str], class_of: Callable[[str], str | None]
) -> tuple[list[DeviceRequest], list[RequestMapping]]:
    """The requests of the claim for these resources, and which containers they serve.

    Init containers run one after the other, before the others: one request, of the container that needs the most in
    addition to what later sidecars and containers have, serves all of them.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    short_lived = [index for index, one in enumerate(pod.spec.init_containers) if one.restart_policy != "Always"]
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(resources):
        class_name = class_of(resource)
        if class_name is None:
            continue
        long_lived: list[DeviceRequest | None] = [None] * len(containers)
        for index, container in enumerate(containers):
            if index not in short_lived:
                long_lived[index], added = _request_and_mappings(index, container, resource, class_name, ())
                mappings += added
        largest, short_mappings = _short_lived(
            [(index, containers[index]) for index in short_lived], resource, class_name, long_lived
        )
        mappings += short_mappings
        requests += [one for one in (largest, *long_lived) if one is not None]
    requests.sort(key=lambda request: request.name)
    return requests, mappings


def _short_lived(
    containers: Iterable[tuple[int, Container]],
    resource: str,
    class_name: str,
    long_lived: Sequence[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """The largest request of init containers, which replaces those of the others in the mappings."""
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for index, container in containers:
        request, added = _request_and_mappings(index, container, resource, class_name, long_lived[index:])
        mappings += added
        if request is not None:
            requests.append(request)
    if not requests:
        return None, mappings
    largest = max(requests, key=_count)
    names = {request.name for request in requests}
    return largest, [
        msgspec.structs.replace(one, request_name=largest.name) if one.request_name in names else one
        for one in mappings
    ]


def _request_and_mappings(
    index: int, container: Container, resource: str, class_name: str, reusable: Iterable[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[RequestMapping]]:
    """The request for what a container needs in addition to reusable requests; None if these are enough."""
    requested = container.resources.requests
    quantity = parse_quantity(requested[resource]) if resource in requested else None
    if quantity is None or not quantity or not quantity.is_whole:
        return None, []
    mappings: list[RequestMapping] = []
    count, available = quantity.value, 0
    for request in reusable:
        if request is not None:
            available += _count(request)
            mappings.append(RequestMapping(container.name, resource, request.name))
            if available >= count:
                return None, mappings
    name = f"container-{index}-request-{sorted(requested).index(resource)}"
    mappings.append(RequestMapping(container.name, resource, name))
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=count - available)
    return DeviceRequest(name=name, exactly=exactly), mappings


def _count(request: DeviceRequest) -> int:
    assert request.exactly is not None, "extended resources are exact requests"
    return request.exactly.count
