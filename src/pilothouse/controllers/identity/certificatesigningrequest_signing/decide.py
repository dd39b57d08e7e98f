"""Which requests are served, and for how long. Pure. Upstream: v1.36 ``pkg/controller/certificates/signer/signer.go``
and ``authority/policies.go``."""

import datetime
from collections.abc import Callable, Mapping, Sequence

from pilothouse.api.certificates import CertificateSigningRequest
from pilothouse.semantics.certificate_requests import (
    API_SERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    RequestedNames,
    has_failed,
    is_approved,
    validate_kubelet_client_csr,
    validate_kubelet_serving_csr,
)

BACKDATE = datetime.timedelta(minutes=5)
"""For clients whose clock is behind."""
SHORT_DURATION = datetime.timedelta(hours=8)
"""Certificates that are valid for less than this are not shortened by five minutes."""
MIN_DURATION = datetime.timedelta(minutes=10)


class AuthorityExpired(Exception):
    """The certificate of the authority is not valid any more."""


def needs_certificate(request: CertificateSigningRequest) -> bool:
    """Whether its signer should process it: approved, not denied, not issued, not failed."""
    return not request.status.certificate and is_approved(request) and not has_failed(request)


def _validate_client_csr(_requested: RequestedNames, usages: Sequence[str]) -> str | None:
    for usage in usages:
        if usage not in {"digital signature", "key encipherment", "client auth"}:
            return f"invalid usage for client certificate: {usage}"
    return None if "client auth" in usages else "missing required usage for client certificate: client auth"


def _validate_nothing(_requested: RequestedNames, _usages: Sequence[str]) -> str | None:
    return None


VALIDATIONS: Mapping[str, Callable[[RequestedNames, Sequence[str]], str | None]] = {
    KUBELET_SERVING: validate_kubelet_serving_csr,
    KUBELET_CLIENT: validate_kubelet_client_csr,
    API_SERVER_CLIENT: _validate_client_csr,
    LEGACY_UNKNOWN: _validate_nothing,
}
"""The validation of each signer (``getCSRVerificationFuncForSignerName``): upstream's error, or ``None``."""


def failed_condition(reason: str, now: str) -> dict[str, str]:
    """The condition of a request that fails validation."""
    return {
        "type": "Failed",
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": reason,
        "lastUpdateTime": now,
    }


def certificate_duration(seconds: int | None, maximum: float) -> datetime.timedelta:
    """The requested duration, ten minutes at least and ``maximum`` at most."""
    limit = datetime.timedelta(seconds=maximum)
    if seconds is None:
        return limit
    requested = datetime.timedelta(seconds=seconds)
    return limit if requested > limit else max(requested, MIN_DURATION)


def validity(
    now: datetime.datetime, length: datetime.timedelta, authority_ends: datetime.datetime
) -> tuple[datetime.datetime, datetime.datetime]:
    """notBefore and notAfter, never beyond the CA's. Raises ``AuthorityExpired``.

    At 12:00 with ten minutes: 11:55 to 12:10. With a day: 11:55 to 11:55 of the next one.
    """
    begins = now - BACKDATE
    ends = now + length if length < SHORT_DURATION else now + length - BACKDATE
    last = f"NotAfter={authority_ends:%Y-%m-%d %H:%M:%S} +0000 UTC"
    if begins >= authority_ends:
        raise AuthorityExpired(f"the signer has expired: {last}")
    if now >= authority_ends:
        raise AuthorityExpired(f"refusing to sign a certificate that expired in the past: {last}")
    return begins, min(ends, authority_ends)
