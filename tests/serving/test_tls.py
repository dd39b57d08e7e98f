"""TLS of the HTTP server, on real sockets of the loopback interface."""

import asyncio
import datetime
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.serving.test_server import NOW, answer, connected, echo, exchange, get

from pilothouse.serving import Peer, Server, openssl, peer_of, presented_by
from pilothouse.serving.certificates import Pair, create_authority, issue_client, issue_server
from pilothouse.serving.protocol import Receive, Scope, Send
from pilothouse.serving.tls import Files, Policy, ServerTls

pytestmark = pytest.mark.real_loop


@pytest.fixture(scope="module")
def authority() -> Pair:
    return create_authority("test", NOW)


@pytest.fixture(scope="module")
def server_pair(authority: Pair) -> Pair:
    return issue_server(authority, ["localhost", "127.0.0.1"], NOW)


def client_context(authority: Pair, client: Pair | None, directory: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.set_alpn_protocols(["h2", "http/1.1"])
    if client is not None:
        client.save(directory / "client.crt", directory / "client.key")
        context.load_cert_chain(directory / "client.crt", directory / "client.key")
    return context


Ask = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def run_with_tls(tls: ServerTls, client: ssl.SSLContext, request: Ask) -> list[Peer | None]:
    peers: list[Peer | None] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        peers.append(peer_of(scope))
        assert scope["scheme"] == "https"
        await answer(send, b"hello")

    async with Server(app, tls=tls) as server:
        assert server.url.startswith("https://")
        async with connected(server, client) as (reader, writer):
            await request(reader, writer)
    return peers


async def send_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(2):
        assert (await exchange(reader, writer, get()))[2] == b"hello"
    tls = writer.get_extra_info("ssl_object")
    assert tls.selected_alpn_protocol() == "http/1.1"
    assert tls.version() == "TLSv1.3"


async def test_client_certificate_is_passed_to_the_application(
    authority: Pair, server_pair: Pair, tmp_path: Path
) -> None:
    client = issue_client(authority, "jane", ["system:masters", "devs"], NOW)
    tls = ServerTls.from_pair(server_pair, client_authority=authority.certificate)
    peers = await run_with_tls(tls, client_context(authority, client, tmp_path), send_twice)
    assert [(peer.common_name, peer.organizations) for peer in peers if peer] == [
        ("jane", ("system:masters", "devs"))
    ] * 2
    assert peers[0] is not None
    assert peers[0].certificate == ssl.PEM_cert_to_DER_cert(client.certificate.decode())


async def test_client_certificate_is_optional(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    tls = ServerTls.from_pair(server_pair, client_authority=authority.certificate)
    assert await run_with_tls(tls, client_context(authority, None, tmp_path), send_twice) == [None, None]


async def test_no_client_certificate_request_without_a_ca(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    client = issue_client(authority, "jane", [], NOW)
    tls = ServerTls.from_pair(server_pair)
    assert await run_with_tls(tls, client_context(authority, client, tmp_path), send_twice) == [None, None]


async def test_tls_1_1_is_rejected(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    context = client_context(authority, None, tmp_path)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match="protocol version"):
        await run_with_tls(ServerTls.from_pair(server_pair), context, send_twice)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_plain_http_gets_the_response_of_gos_server(server_pair: Pair, method: str) -> None:
    tls = ServerTls.from_pair(server_pair)
    async with asyncio.timeout(5), Server(echo, tls=tls) as server, connected(server) as (reader, writer):
        writer.write(f"{method} /healthz HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 400 Bad Request\r\n")
        assert b"Content-Length: 48\r\n" in head
        assert await reader.readexactly(48) == b"Client sent an HTTP request to an HTTPS server.\n"


async def test_renewed_certificate_is_used_for_new_connections(authority: Pair, tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issue_server(authority, ["localhost"], NOW, common_name="first").save(certificate, key)
    tls = ServerTls.load(certificate, key)
    client = client_context(authority, None, tmp_path)

    async def served_subject(server: Server) -> str:
        async with connected(server, client) as (_reader, writer):
            subject = writer.get_extra_info("peercert")["subject"]
            return str(subject[0][0][1])

    async with Server(echo, tls=tls) as server:
        assert await served_subject(server) == "first"
        assert not tls.reload()
        issue_server(authority, ["localhost"], NOW, common_name="second").save(certificate, key)
        await asyncio.sleep(1.01)
        assert await served_subject(server) == "second", "the next connection is served with it"
        key.write_bytes(create_authority("other", NOW).key)
        with pytest.raises(ValueError, match="are not a certificate and its key"):
            tls.reload()
        assert await served_subject(server) == "second"


def test_errors_name_invalid_certificate_files(tmp_path: Path, server_pair: Pair) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.crt"):
        ServerTls.load(tmp_path / "absent.crt", tmp_path / "absent.key")
    server_pair.save(tmp_path / "tls.crt", tmp_path / "tls.key")
    (tmp_path / "tls.crt").write_text("nonsense")
    with pytest.raises(ValueError, match=r"tls\.crt and .*tls\.key are not a certificate"):
        ServerTls.load(tmp_path / "tls.crt", tmp_path / "tls.key")
    with pytest.raises(ValueError, match="client CA is not a PEM certificate"):
        ServerTls(client_authority=b"nonsense")


REFUSALS = [
    pytest.param(0, False, "signed by unknown authority", id="different authority"),
    pytest.param(-400, True, "expired at", id="expired"),
    pytest.param(400, True, "not valid before", id="not valid yet"),
]


@pytest.mark.parametrize(("days", "own_authority", "reason"), REFUSALS)
async def test_unverifiable_client_certificate_is_reported_to_the_application(
    authority: Pair, server_pair: Pair, tmp_path: Path, days: int, own_authority: bool, reason: str
) -> None:
    issuer = authority if own_authority else create_authority("other", NOW)
    client = issue_client(issuer, "eve", ["system:masters"], NOW + datetime.timedelta(days=days))
    tls = ServerTls.from_pair(server_pair, client_authority=authority.certificate)
    observed: list[tuple[Peer | None, str]] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        assert peer_of(scope) is None, "nobody who only asks for verified ones is misled"
        observed.append(presented_by(scope))
        await answer(send, b"hello")

    context = client_context(authority, client, tmp_path)
    async with Server(app, tls=tls) as server, connected(server, context) as (reader, writer):
        assert (await exchange(reader, writer, get()))[2] == b"hello"
    [(peer, refusal)] = observed
    assert peer is not None
    assert peer.common_name == "eve"
    assert refusal.startswith(reason)


@pytest.mark.parametrize(("days", "own_authority", "reason"), [*REFUSALS[:2]])
async def test_unverifiable_client_certificate_fails_the_handshake_without_openssl_support(
    authority: Pair,
    server_pair: Pair,
    tmp_path: Path,
    days: int,
    own_authority: bool,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openssl, "accept_any_client_certificate", lambda _context: False)
    issuer = authority if own_authority else create_authority("other", NOW)
    client = issue_client(issuer, "eve", ["system:masters"], NOW + datetime.timedelta(days=days))

    async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with pytest.raises(OSError, match="unknown ca" if "unknown" in reason else "certificate expired"):
            await exchange(reader, writer, get())

    tls = ServerTls.from_pair(server_pair, client_authority=authority.certificate)
    assert await run_with_tls(tls, client_context(authority, client, tmp_path), refused) == []
    good = issue_client(authority, "jane", [], NOW)
    [peer, _again] = await run_with_tls(tls, client_context(authority, good, tmp_path), send_twice)
    assert peer is not None
    assert peer.common_name == "jane"


async def test_client_cas_can_be_replaced(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    other = create_authority("other", NOW)
    tls = ServerTls.from_pair(server_pair, client_authority=authority.certificate)
    for trusted, believed in ((authority, ["jane", None]), (other, [None, "joe"])):
        tls.trust(trusted.certificate)
        clients = [issue_client(authority, "jane", [], NOW), issue_client(other, "joe", [], NOW)]
        peers = [(await run_with_tls(tls, client_context(authority, c, tmp_path), send_twice))[0] for c in clients]
        assert [peer and peer.common_name for peer in peers] == believed


async def test_sni_certificates(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    named = []
    for name, patterns in (("one.example", ()), ("wild", ("*.two.example", "three.example"))):
        files = Files(tmp_path / f"{name}.crt", tmp_path / f"{name}.key", patterns)
        hosts = ["one.example"] if name == "one.example" else ["a.two.example", "three.example"]
        issue_server(authority, hosts, NOW, common_name=name).save(files.certificate, files.key)
        named.append(files)
    tls = ServerTls(server_pair, named=named)
    client = client_context(authority, None, tmp_path)
    client.check_hostname = False

    async def served_subject(server: Server, host: str | None) -> str:
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=client, server_hostname=host)
        subject = writer.get_extra_info("peercert")["subject"]
        writer.close()
        return str(subject[-1][0][1])

    async with Server(echo, tls=tls) as server:
        assert await served_subject(server, "one.example") == "one.example"
        assert await served_subject(server, "ONE.example") == "one.example"
        assert await served_subject(server, "a.two.example") == "wild"
        assert await served_subject(server, "three.example") == "wild"
        assert await served_subject(server, "a.b.two.example") == "localhost"
        assert await served_subject(server, "else.example") == "localhost"
        assert await served_subject(server, "127.0.0.1") == "localhost"
        issue_server(authority, ["one.example"], NOW, common_name="renewed").save(named[0].certificate, named[0].key)
        assert tls.reload()
        assert await served_subject(server, "one.example") == "renewed"


async def negotiated(tls: ServerTls, client: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher of a connection."""
    result: list[tuple[str, str]] = []

    async def record_cipher(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spoken = writer.get_extra_info("ssl_object")
        result.append((spoken.version(), spoken.cipher()[0]))

    await run_with_tls(tls, client, record_cipher)
    return result[0]


async def test_tls_version_and_ciphers(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    only_13 = ServerTls(server_pair, policy=Policy(minimum_version=ssl.TLSVersion.TLSv1_3))
    client = client_context(authority, None, tmp_path)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="protocol version"):
        await negotiated(only_13, client)
    chosen = ServerTls(server_pair, policy=Policy(ciphers=("ECDHE-ECDSA-CHACHA20-POLY1305",)))
    assert await negotiated(chosen, client) == ("TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305")
    client.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        await negotiated(chosen, client)


async def test_tls_groups(authority: Pair, server_pair: Pair, tmp_path: Path) -> None:
    client = client_context(authority, None, tmp_path)
    client.set_ecdh_curve("prime256v1")
    assert (await negotiated(ServerTls(server_pair, policy=Policy(groups=("X25519", "P-256"))), client))[0] == "TLSv1.3"
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        await negotiated(ServerTls(server_pair, policy=Policy(groups=("P-384",))), client)
