"""certificatesigningrequests/approval: changes only the conditions Approved and Denied."""

from typing import cast

from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.update import SubresourceStrategy
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.certificates.certificatesigningrequests.strategy import (
    CertificateSigningRequestStrategy,
)


def approval(core: Core, call: Call) -> SubresourceStrategy:
    """PUT and PATCH of certificatesigningrequests/NAME/approval."""
    strategy = cast(CertificateSigningRequestStrategy, call.strategy)

    def prepare(obj: Object, old: Object) -> None:
        strategy.prepare_approval(obj, old, core.time.now())

    return SubresourceStrategy(prepare, strategy.validate_approval, strategy.status_steps)
