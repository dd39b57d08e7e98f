"""Manages a cloud load balancer for every Service of type ``LoadBalancer``.

Behaviour: the finalizer ``service.kubernetes.io/load-balancer-cleanup`` is on the Service, on the server itself, before
the cloud is asked for anything, and is taken off only when the cloud has said that the load balancer is gone: none is
left behind when its Service goes, or wants none any more. The Service's status says where the load balancer is found. A
change that concerns it is passed on; so is the list of nodes, when one comes, goes, or is (not) to be used. A failure
is recorded as an event and retried after 5 s, then with longer delays up to five minutes, or when the cloud says so.

Not guaranteed: Services with a ``loadBalancerClass``. Those are somebody else's.

What a cloud has to do is in ``controllers/shared/cloud``. docs/controllers/service_lb.md has where it differs from
upstream.
"""

import msgspec

from pilothouse.api.core import NODES, SERVICES
from pilothouse.controllers.shared.cloud_flags import CLOUD_LOOPS, CLUSTER_NAME
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor, FlagSpec

with lazy_imports():
    from pilothouse.controllers.shared import cloud, cloud_providers
from pilothouse.runtime.watches import Watch


class ServiceLBOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Without a provider, by name or as an object, the controller does not run."""

    provider: "str | cloud.CloudProvider" = ""
    cluster_name: str = "kubernetes"
    workers: int = 1

    def validate(self) -> list[str]:
        return cloud_providers.validate_provider(self.provider)


DESCRIPTOR = Descriptor(
    name="service-lb-controller",
    aliases=("service",),
    client_name="service-controller",
    options=ServiceLBOptions,
    switch="provider",
    flags=(
        FlagSpec(field="provider", group="generic", flag=CLOUD_LOOPS),
        FlagSpec(field="cluster_name", group="generic", flag=CLUSTER_NAME),
        flag_spec(
            "workers",
            "concurrent-service-syncs",
            INT32,
            1,
            "The number of services that are allowed to sync concurrently. Larger number = more responsive service "
            "management, but more CPU (and network) load",
            note="for --cloud-loops",
        ),
    ),
    watches=(Watch(kind=SERVICES), Watch(kind=NODES)),
    package=__name__,
)
