"""Creation, storage and renewal of certificates."""

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.tables import cases

from pilothouse.serving import certificates
from pilothouse.serving.certificates import (
    Pair,
    create_authority,
    issue_client,
    issue_server,
    load_or_create_authority,
    load_or_issue_server,
)
from pilothouse.serving.peer import read_peer

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def read(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_ca_has_path_length_zero() -> None:
    authority = create_authority("pilothouse-ca", NOW)
    ca = read(authority)
    assert ca.extensions.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(True, 0)
    assert ca.not_valid_after_utc == NOW + 3650 * DAY
    for issued in (issue_server(authority, ["localhost"], NOW), issue_client(authority, "jane", ["devs"], NOW)):
        certificate = read(issued)
        certificate.verify_directly_issued_by(ca)
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert (certificate.not_valid_before_utc, certificate.not_valid_after_utc) == (
            NOW - datetime.timedelta(hours=1),
            NOW + 365 * DAY,
        )


def test_server_certificate_has_sans_and_chain() -> None:
    authority = create_authority("ca", NOW)
    issued = issue_server(authority, ["localhost", "kubernetes.default.svc", "127.0.0.1", "::1", "localhost"], NOW)
    names = read(issued).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "kubernetes.default.svc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert issued.certificate.endswith(authority.certificate)
    with pytest.raises(ValueError, match="at least one host"):
        issue_server(authority, [], NOW)


def test_certificates_do_not_outlive_their_ca() -> None:
    authority = create_authority("ca", NOW)
    issued = issue_client(authority, "jane", [], NOW + 3600 * DAY)
    assert issued.not_after == authority.not_after


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection, the server's first."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(3):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return server_side, client_side


def test_certificates_pass_strict_verification(tmp_path: Path) -> None:
    """Python 3.13 and later verify strictly by default."""
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("ca", now)
    issue_server(authority, ["localhost"], now).save(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    _server_side, client_side = shake_hands(server, client)
    assert client_side.getpeercert()


def test_peer_user_and_groups(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("ca", now)
    issue_server(authority, ["localhost"], now).save(tmp_path / "tls.crt", tmp_path / "tls.key")
    uid = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
    parts = [(NameOID.ORGANIZATION_NAME, "devs"), (uid, "1-2"), (uid, "3-4"), (NameOID.COMMON_NAME, "jane")]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    certificates._issue(authority, subject, now, (usage,)).save(tmp_path / "me.crt", tmp_path / "me.key")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate.decode())
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    client.load_cert_chain(tmp_path / "me.crt", tmp_path / "me.key")
    server_side, _client_side = shake_hands(server, client)
    peer = read_peer(server_side)
    assert peer is not None
    assert (peer.common_name, peer.organizations, peer.uids) == ("jane", ("devs",), ("1-2", "3-4"))


def test_ca_is_created_once_with_a_private_key_file(tmp_path: Path) -> None:
    first = load_or_create_authority(tmp_path, "ca", "pilothouse-ca", NOW)
    assert load_or_create_authority(tmp_path, "ca", "pilothouse-ca", NOW + 100 * DAY) == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "ca.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    with pytest.raises(ValueError, match=r"the CA certificate .*ca\.crt expired at"):
        load_or_create_authority(tmp_path, "ca", "pilothouse-ca", NOW + 3651 * DAY)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(FileNotFoundError, match=r"ca\.key"):
        load_or_create_authority(tmp_path, "ca", "pilothouse-ca", NOW)


@cases(
    "hosts, days, other_authority, kept",
    {
        "valid: kept": (["localhost", "127.0.0.1"], 0, False, True),
        "additional names and valid: kept": (["127.0.0.1"], 300, False, True),
        "a host is missing: reissued": (["localhost", "10.0.0.1"], 0, False, False),
        "expires within a month: reissued": (["localhost"], 340, False, False),
        "different CA: reissued": (["localhost"], 0, True, False),
    },
)
def test_server_certificate_is_reused_while_valid(
    tmp_path: Path, hosts: list[str], days: int, other_authority: bool, kept: bool
) -> None:
    authority = create_authority("ca", NOW)
    first = load_or_issue_server(tmp_path, "server", authority, ["localhost", "127.0.0.1"], NOW)
    if other_authority:
        authority = create_authority("ca", NOW)
    second = load_or_issue_server(tmp_path, "server", authority, hosts, NOW + days * DAY)
    assert (second == first) == kept
    assert Pair.load(tmp_path / "server.crt", tmp_path / "server.key") == second


def test_error_names_a_mismatching_key(tmp_path: Path) -> None:
    one, other = create_authority("one", NOW), create_authority("other", NOW)
    Pair(one.certificate, other.key).save(tmp_path / "ca.crt", tmp_path / "ca.key")
    with pytest.raises(ValueError, match=r"ca\.key is not the key of the certificate .*ca\.crt"):
        Pair.load(tmp_path / "ca.crt", tmp_path / "ca.key")
    (tmp_path / "ca.key").write_text("nonsense")
    with pytest.raises(ValueError, match="can't be read"):
        Pair.load(tmp_path / "ca.crt", tmp_path / "ca.key")
