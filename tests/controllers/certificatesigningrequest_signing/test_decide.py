"""Who is served, and for how long. Rows mirror ``Test_signer_duration`` and what ``TestHandle`` says of usages,
``pkg/controller/certificates/signer/signer_test.go``, and the times of ``authority/authority_test.go``, both of
v1.36."""

import datetime

import pytest

from pilothouse.api.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from pilothouse.controllers.identity.certificatesigningrequest_signing.decide import (
    VALIDATIONS,
    AuthorityEnded,
    is_waiting,
    lifetime,
    validity,
)
from pilothouse.semantics.certificate_requests import API_SERVER_CLIENT, LEGACY_UNKNOWN, RequestedNames

NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
MINUTE, HOUR, DAY = (datetime.timedelta(**{unit: 1}) for unit in ("minutes", "hours", "days"))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(1800, 1800, id="shorter than the limit"),
        pytest.param(3 * 3600, 3600, id="longer than the limit"),
        pytest.param(-60, 600, id="negative"),
        pytest.param(599, 600, id="less than ten minutes"),
        pytest.param(600, 600, id="ten minutes"),
        pytest.param(3600, 3600, id="the limit"),
        pytest.param(None, 3600, id="nothing said: the limit"),
    ],
)
def test_how_long_a_certificate_is_good(seconds: int | None, expected: int) -> None:
    assert lifetime(seconds, 3600.0) == datetime.timedelta(seconds=expected)


def test_a_limit_below_ten_minutes_is_the_limit() -> None:
    assert lifetime(None, 60.0) == MINUTE
    assert lifetime(120, 60.0) == MINUTE
    assert lifetime(30, 60.0) == 10 * MINUTE, "as upstream: what is asked for is raised without a look at the limit"


@pytest.mark.parametrize(
    ("length", "authority", "expected"),
    [
        pytest.param(HOUR, DAY, HOUR, id="short: five minutes before now, and whole after it (backdate with short)"),
        pytest.param(MINUTE, DAY, MINUTE, id="very short (super small ttl)"),
        pytest.param(10 * MINUTE, DAY, 10 * MINUTE, id="ten minutes"),
        pytest.param(8 * HOUR, DAY, 8 * HOUR - 5 * MINUTE, id="eight hours are not short"),
        pytest.param(24 * HOUR, 9 * DAY, DAY - 5 * MINUTE, id="a day less five minutes (longer ttl)"),
        pytest.param(48 * HOUR, DAY, DAY, id="never longer than the authority (truncate expiration)"),
    ],
)
def test_from_when_and_until_when(
    length: datetime.timedelta, authority: datetime.timedelta, expected: datetime.timedelta
) -> None:
    assert validity(NOW, length, NOW + authority) == (NOW - 5 * MINUTE, NOW + expected)


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        pytest.param(5 * MINUTE, "the signer has expired: NotAfter=2026-05-01 11:55:00", id="expired ca"),
        pytest.param(
            0 * MINUTE,
            "refusing to sign a certificate that expired in the past: NotAfter=2026-05-01 12:00:00",
            id="expired ca with backdate",
        ),
    ],
)
def test_an_authority_that_has_ended_signs_nothing(ended: datetime.timedelta, text: str) -> None:
    with pytest.raises(AuthorityEnded, match=text):
        validity(NOW, HOUR, NOW - ended)


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        pytest.param(("client auth", "digital signature", "key encipherment"), None, id="all that it may have"),
        pytest.param(("client auth",), None, id="what it must have"),
        pytest.param(
            ("server auth", "client auth"),
            "invalid usage for client certificate: server auth",
            id="one that it may not",
        ),
        pytest.param(
            ("digital signature",), "missing required usage for client certificate: client auth", id="not what it must"
        ),
        pytest.param((), "missing required usage for client certificate: client auth", id="none"),
    ],
)
def test_what_a_client_may_use_its_key_for(usages: tuple[str, ...], expected: str | None) -> None:
    assert VALIDATIONS[API_SERVER_CLIENT](RequestedNames(), usages) == expected
    assert VALIDATIONS[LEGACY_UNKNOWN](RequestedNames(), usages) is None


def said(*conditions: str, served: bool = False) -> CertificateSigningRequest:
    listed = tuple(CertificateSigningRequestCondition(type=kind, status="True") for kind in conditions)
    status = CertificateSigningRequestStatus(conditions=listed, certificate=b"x" if served else b"")
    return CertificateSigningRequest(status=status)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(said("Approved"), True, id="approved"),
        pytest.param(said(), False, id="not approved"),
        pytest.param(said("Denied"), False, id="denied"),
        pytest.param(said("Approved", "Denied"), False, id="approved and denied"),
        pytest.param(said("Approved", "Failed"), False, id="given up"),
        pytest.param(said("Failed"), False, id="given up before anybody approved"),
        pytest.param(said("Approved", served=True), False, id="served"),
    ],
)
def test_whose_turn_it_is(request_: CertificateSigningRequest, expected: bool) -> None:
    assert is_waiting(request_) is expected
