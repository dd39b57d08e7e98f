"""Manages a cloud load balancer for every Service of type ``LoadBalancer``.

Behaviour: the finalizer ``service.kubernetes.io/load-balancer-cleanup`` is written to the Service before the cloud
provider is called, and removed only after the provider has confirmed that the load balancer does not exist; so none is
left behind. The Service's status has the addresses of the load balancer. Relevant changes of the Service, and of the
set of nodes, are passed to the provider. A failure is recorded as an event and retried after 5 s, with backoff up to
five minutes, or after the delay that the provider returns.

Not guaranteed: Services with a ``loadBalancerClass``, which other controllers manage.

The interface of cloud providers is in ``controllers/shared/cloud``. docs/controllers/service_lb.md has the differences
from upstream.
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
