"""Every controller watches exactly the resources its descriptor declares."""

from typing import Any, TypeVar

import msgspec
import pytest
from tests.runtime.cluster import Cluster

from pilothouse.api.kinds import Kind
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.controllers.shared.cloud_providers import SIMULATED
from pilothouse.env import Env
from pilothouse.machinery.jws import Signer, new_key
from pilothouse.runtime import ControllerContext, Descriptor, InformerFactory, Watch
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.informer import SharedInformer

T = TypeVar("T", bound=Cached)

OPTIONS: dict[str, dict[str, Any]] = {
    "cloud-node-lifecycle-controller": {"provider": SIMULATED},
    "device-taint-eviction-controller": {"rules": True},
    "node-ipam-controller": {"allocate": True, "cluster_cidr": "10.0.0.0/16"},
    "node-route-controller": {"provider": SIMULATED, "allocate": True, "cluster_cidr": "10.0.0.0/16"},
    "serviceaccount-token-controller": {"signer": Signer(new_key())},
    "service-lb-controller": {"provider": SIMULATED},
}
"""The options that enable all watches."""

LATER = {"legacy-serviceaccount-token-cleaner-controller": {"pods"}}
"""Watched once there is something to look up there, in single namespaces."""

Selection = tuple[Any, ...]


class Recording(InformerFactory):
    """Records the requested informers."""

    def __init__(self, client: Client, env: Env) -> None:
        super().__init__(client, env)
        self.requests: set[Selection] = set()

    def informer(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        keep_raw: bool = False,
        offer: bool = True,
    ) -> SharedInformer[T]:
        self.requests.add((kind, namespace, label_selector, field_selector, keep_raw))
        return super().informer(
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            keep_raw=keep_raw,
            offer=offer,
        )


def declared(watch: Watch) -> Selection:
    return watch.kind, watch.namespace, watch.label_selector, watch.field_selector, watch.keep_raw


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.name)
async def test_watched_resources_are_the_declared_ones(env: Env, descriptor: Descriptor) -> None:
    client = Cluster(env).client()
    informers, metadata, mapper = Recording(client, env), Recording(client, env), RestMapper(client)
    options = descriptor.default_options()
    if descriptor.name in OPTIONS:
        assert options is not None
        options = msgspec.structs.replace(options, **OPTIONS[descriptor.name])
    descriptor.build(
        ControllerContext(
            env=env,
            client=client,
            informers=informers,
            metadata_informers=metadata,
            options=options,
            rest_mapper=mapper,
        )
    )
    later = LATER.get(descriptor.name, set())
    expected = {declared(watch) for watch in descriptor.watches if watch.kind.resource not in later}
    assert informers.requests == expected
    if not descriptor.watches_discovered:
        assert not metadata.requests
