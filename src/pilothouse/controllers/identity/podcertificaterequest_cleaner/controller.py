"""Checks every PodCertificateRequest each five minutes. Upstream: v1.36
``pkg/controller/certificates/cleaner/pcrcleaner.go``."""

import datetime

from pilothouse.api.certificates import POD_CERTIFICATE_REQUESTS
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR
from pilothouse.controllers.shared.sweep import Sweep
from pilothouse.runtime import ControllerContext

MAX_AGE = datetime.timedelta(minutes=15)


def is_expired(meta: ObjectMeta, now: datetime.datetime) -> bool:
    """Whether the request is so old that the kubelet has given up on it."""
    return meta.creation_timestamp is not None and now - meta.creation_timestamp >= MAX_AGE


PERIOD_SECONDS = 300.0


class PodRequestCleaner(Sweep[Object]):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context,
            DESCRIPTOR.name,
            POD_CERTIFICATE_REQUESTS,
            period=PERIOD_SECONDS,
            queue_name="podcertificaterequest_cleaner",
            description="PodCertificateRequest",
        )

    def reason(self, pcr: Object) -> str | None:
        return "it is too old" if is_expired(pcr.metadata, self.env.now()) else None


build = PodRequestCleaner
