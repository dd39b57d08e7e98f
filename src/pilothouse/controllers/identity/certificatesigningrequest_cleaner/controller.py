"""Looks at every request once an hour, and deletes those whose time is over (``decide``)."""

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest
from pilothouse.controllers.identity.certificatesigningrequest_cleaner import DESCRIPTOR
from pilothouse.controllers.identity.certificatesigningrequest_cleaner.decide import why_over
from pilothouse.controllers.shared.sweep import Sweep
from pilothouse.runtime import ControllerContext

PERIOD_SECONDS = 3600.0


def build(context: ControllerContext) -> "RequestCleaner":
    """The factory of the descriptor."""
    return RequestCleaner(context)


class RequestCleaner(Sweep[CertificateSigningRequest]):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context,
            DESCRIPTOR.name,
            CERTIFICATE_SIGNING_REQUESTS,
            period=PERIOD_SECONDS,
            queue_name="certificatesigningrequest_cleaner",
            what="certificate request",
        )

    def is_over(self, found: CertificateSigningRequest) -> bool:
        """Whether nobody will look at it any more; says why."""
        why = why_over(found, self.env.now())
        if why is not None:
            self.log.info("Cleaning a certificate request", csr=found.metadata.name, reason=why)
        return why is not None
