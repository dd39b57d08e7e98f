"""Checks every request once an hour. Upstream: v1.36 ``pkg/controller/certificates/cleaner/cleaner.go``."""

import datetime

from pilothouse.api.certificates import CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest
from pilothouse.controllers.identity.certificatesigningrequest_cleaner import DESCRIPTOR
from pilothouse.controllers.shared.sweep import Sweep
from pilothouse.env.lazy import lazy_imports
from pilothouse.runtime import ControllerContext

with lazy_imports():
    from cryptography import x509


COMPLETED_EXPIRATION = datetime.timedelta(hours=1)
"""How long issued, denied and failed requests are kept (``approvedExpiration``, ``deniedExpiration``)."""
PENDING_EXPIRATION = datetime.timedelta(hours=24)
"""How long requests stay pending or approved without a certificate (``pendingExpiration``)."""


def cleanup_reason(request: CertificateSigningRequest, now: datetime.datetime) -> str | None:
    """The reason to delete the request; ``None`` if it is kept. A condition without a time never expires."""
    issued = bool(request.status.certificate)
    for condition in request.status.conditions:
        age = _age(condition.last_update_time, now)
        match condition.type:
            case "Approved" if issued and age > COMPLETED_EXPIRATION:
                return "it was approved and its certificate issued more than an hour ago"
            case "Approved" if not issued and age > PENDING_EXPIRATION:
                return "it was approved more than a day ago and no certificate was issued"
            case "Approved" if issued and is_expired(request.status.certificate, now):
                return "its certificate has expired"
            case "Denied" if age > COMPLETED_EXPIRATION:
                return "it was denied more than an hour ago"
            case "Failed" if age > COMPLETED_EXPIRATION:
                return "it failed more than an hour ago"
    if not request.status.conditions and _age(request.metadata.creation_timestamp, now) > PENDING_EXPIRATION:
        return "it has been pending for more than a day"
    return None


def _age(at: datetime.datetime | None, now: datetime.datetime) -> datetime.timedelta:
    return datetime.timedelta() if at is None else now - at


def is_expired(pem: bytes, now: datetime.datetime) -> bool:
    """Whether the first certificate has expired. One that cannot be parsed has not."""
    try:
        return now > x509.load_pem_x509_certificate(pem).not_valid_after_utc
    except ValueError:
        return False


PERIOD_SECONDS = 3600.0


class RequestCleaner(Sweep[CertificateSigningRequest]):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(
            context,
            DESCRIPTOR.name,
            CERTIFICATE_SIGNING_REQUESTS,
            period=PERIOD_SECONDS,
            queue_name="certificatesigningrequest_cleaner",
            description="certificate request",
        )

    def reason(self, csr: CertificateSigningRequest) -> str | None:
        reason = cleanup_reason(csr, self.env.now())
        if reason is not None:
            self.log.info("Cleaning a certificate request", csr=csr.metadata.name, reason=reason)
        return reason


build = RequestCleaner
