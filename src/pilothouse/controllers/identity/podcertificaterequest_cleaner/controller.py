"""Looks at every request of a pod each five minutes, and deletes those whose time is over (``decide``)."""

from pilothouse.api.certificates import POD_CERTIFICATE_REQUESTS
from pilothouse.api.meta import Object
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR
from pilothouse.controllers.identity.podcertificaterequest_cleaner.decide import is_over
from pilothouse.controllers.shared.sweep import Sweep
from pilothouse.runtime import ControllerContext

PERIOD_SECONDS = 300.0


def build(context: ControllerContext) -> "PodRequestCleaner":
    """The factory of the descriptor."""
    return PodRequestCleaner(context)


class PodRequestCleaner(Sweep[Object]):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context,
            DESCRIPTOR.name,
            POD_CERTIFICATE_REQUESTS,
            period=PERIOD_SECONDS,
            queue_name="podcertificaterequest_cleaner",
            what="PodCertificateRequest",
        )

    def is_over(self, found: Object) -> bool:
        """Whether it has served."""
        return is_over(found.metadata, self.env.now())
