"""Which requests are signed, and for how long.

Rows mirror ``Test_signer_duration`` and what ``TestHandle`` says of usages,
``pkg/controller/certificates/signer/signer_test.go``, and the times of ``authority/authority_test.go``, both of v1.36.
"""

import datetime

import pytest
from tests.tables import cases

from pilothouse.api.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from pilothouse.controllers.identity.certificatesigningrequest_signing.decide import (
    VALIDATIONS,
    AuthorityExpired,
    certificate_duration,
    needs_certificate,
    validity,
)
from pilothouse.semantics.certificate_requests import API_SERVER_CLIENT, LEGACY_UNKNOWN, RequestedNames

NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
MINUTE, HOUR, DAY = (datetime.timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))


@cases(
    "seconds, expected",
    {
        "shorter than the limit": (1800, 1800),
        "longer than the limit": (3 * 3600, 3600),
        "negative": (-60, 600),
        "below ten minutes": (599, 600),
        "ten minutes": (600, 600),
        "the limit": (3600, 3600),
        "no expirationSeconds: the limit": (None, 3600),
    },
)
def test_signer_duration(seconds: int | None, expected: int) -> None:
    assert certificate_duration(seconds, 3600.0) == datetime.timedelta(seconds=expected)


def test_maximum_duration_below_ten_minutes_applies() -> None:
    assert certificate_duration(None, 60.0) == MINUTE
    assert certificate_duration(120, 60.0) == MINUTE
    assert certificate_duration(30, 60.0) == 10 * MINUTE, (
        "as upstream: what is asked for is raised without a look at the limit"
    )


@cases(
    "length, authority, expected",
    {
        "backdate with short": (HOUR, DAY, HOUR),
        "very short (super small ttl)": (MINUTE, DAY, MINUTE),
        "ten minutes": (10 * MINUTE, DAY, 10 * MINUTE),
        "eight hours are not short": (8 * HOUR, DAY, 8 * HOUR - 5 * MINUTE),
        "a day less five minutes (longer ttl)": (24 * HOUR, 9 * DAY, DAY - 5 * MINUTE),
        "truncate expiration": (48 * HOUR, DAY, DAY),
    },
)
def test_not_before_and_not_after(
    length: datetime.timedelta, authority: datetime.timedelta, expected: datetime.timedelta
) -> None:
    assert validity(NOW, length, NOW + authority) == (NOW - 5 * MINUTE, NOW + expected)


@cases(
    "ended, text",
    {
        "expired ca": (5 * MINUTE, "the signer has expired: NotAfter=2026-05-01 11:55:00"),
        "expired ca with backdate": (
            0 * MINUTE,
            "refusing to sign a certificate that expired in the past: NotAfter=2026-05-01 12:00:00",
        ),
    },
)
def test_expired_ca_does_not_sign(ended: datetime.timedelta, text: str) -> None:
    with pytest.raises(AuthorityExpired, match=text):
        validity(NOW, HOUR, NOW - ended)


@cases(
    "usages, expected",
    {
        "all allowed usages": (("client auth", "digital signature", "key encipherment"), None),
        "required usage alone": (("client auth",), None),
        "usage that is not allowed": (
            ("server auth", "client auth"),
            "invalid usage for client certificate: server auth",
        ),
        "missing required usage": (
            ("digital signature",),
            "missing required usage for client certificate: client auth",
        ),
        "no usages": ((), "missing required usage for client certificate: client auth"),
    },
)
def test_allowed_usages_by_signer(usages: tuple[str, ...], expected: str | None) -> None:
    assert VALIDATIONS[API_SERVER_CLIENT](RequestedNames(), usages) == expected
    assert VALIDATIONS[LEGACY_UNKNOWN](RequestedNames(), usages) is None


def certificate_request(*conditions: str, served: bool = False) -> CertificateSigningRequest:
    listed = tuple(CertificateSigningRequestCondition(type=kind, status="True") for kind in conditions)
    status = CertificateSigningRequestStatus(conditions=listed, certificate=b"x" if served else b"")
    return CertificateSigningRequest(status=status)


@cases(
    "request_, expected",
    {
        "approved": (certificate_request("Approved"), True),
        "pending": (certificate_request(), False),
        "denied": (certificate_request("Denied"), False),
        "approved and denied": (certificate_request("Approved", "Denied"), False),
        "approved and failed": (certificate_request("Approved", "Failed"), False),
        "failed": (certificate_request("Failed"), False),
        "issued": (certificate_request("Approved", served=True), False),
    },
)
def test_requests_ready_for_signing(request_: CertificateSigningRequest, expected: bool) -> None:
    assert needs_certificate(request_) is expected
