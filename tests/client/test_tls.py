"""TLS, client certificates, proxies and exec plugins on real sockets."""

import asyncio
import contextlib
import json
import socket
import ssl
import stat
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.client.certificates import Authority
from tests.client.scripted_server import ReceivedRequest, ScriptedServer
from tests.env.handshakes import connect_immediately, give_up_at_every_step
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.client import dial
from pilothouse.client.credentials import IssuedToken, TokenFile, bearer
from pilothouse.client.endpoint import parse_endpoint, parse_proxy
from pilothouse.client.errors import ConnectFailed, ConnectionLost
from pilothouse.client.exec_plugin import ExecPlugin, ExecSettings
from pilothouse.client.remote import RemoteTransport
from pilothouse.client.tls import TlsSettings
from pilothouse.env import Env

GET = wire.Request("GET", "/x")
V1 = "client.authentication.k8s.io/v1"


def server_context(
    tmp_path: Path, authority: Authority, *, dns: str = "", client_auth: Authority | None = None
) -> ssl.SSLContext:
    certificate, key = authority.issue("server", dns=dns)
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    if client_auth is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_auth.pem.decode())
    return context


def whoami(request: ReceivedRequest) -> None:
    """Answers with the common name of the client's certificate and the Authorization header."""
    peer = request.connection.transport.get_extra_info("peercert") or {}
    names = [value for part in peer.get("subject", ()) for key, value in part if key == "commonName"]
    request.answer(json.dumps([names, request.header("authorization")]).encode())


@pytest.mark.real_loop(timeout=20)
async def test_server_certificate_is_verified(tmp_path: Path) -> None:
    authority = Authority()
    async with ScriptedServer(ReceivedRequest.answer, tls=server_context(tmp_path, authority)) as server:
        endpoint = parse_endpoint(server.url, "test")
        trusting = RemoteTransport(endpoint, Env(), tls=TlsSettings(ca_data=authority.pem))
        assert (await trusting.request(GET)).status == 200
        assert (await trusting.request(GET)).status == 200
        assert len(server.connections) == 1
        other = RemoteTransport(endpoint, Env(), tls=TlsSettings(ca_data=Authority().pem))
        with pytest.raises(ConnectFailed, match="the server's certificate is not trusted"):
            await other.request(GET)
        blind = RemoteTransport(endpoint, Env(), tls=TlsSettings(insecure_skip_verify=True))
        assert (await blind.request(GET)).status == 200
        for transport in (trusting, other, blind):
            await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_intermediate_and_self_signed_certificates_are_trusted_as_in_go(
    tmp_path: Path,
) -> None:
    middle = Authority("middle", above=Authority())
    context = server_context(tmp_path, middle)
    certificate = (tmp_path / "server.pem").read_bytes().partition(b"-----BEGIN PRIVATE")[0]
    async with ScriptedServer(ReceivedRequest.answer, tls=context) as server:
        for bundle in (middle.pem, certificate):
            transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), tls=TlsSettings(ca_data=bundle))
            assert (await transport.request(GET)).status == 200
            await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_common_name_is_not_used_as_host_name(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "server.pem").write_bytes(b"".join(authority.issue("kubernetes", alternatives=False)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    async with ScriptedServer(ReceivedRequest.answer, tls=context) as server:
        settings = TlsSettings(ca_data=authority.pem, server_name="kubernetes")
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), tls=settings)
        with pytest.raises(ConnectFailed, match="not trusted: Hostname mismatch"):
            await transport.request(GET)
        await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_tls_server_name(tmp_path: Path) -> None:
    authority = Authority()
    async with ScriptedServer(
        ReceivedRequest.answer, tls=server_context(tmp_path, authority, dns="kubernetes")
    ) as server:
        endpoint = parse_endpoint(server.url, "test")
        plain = RemoteTransport(endpoint, Env(), tls=TlsSettings(ca_data=authority.pem))
        with pytest.raises(ConnectFailed, match="not trusted: IP address mismatch"):
            await plain.request(GET)
        named = RemoteTransport(endpoint, Env(), tls=TlsSettings(ca_data=authority.pem, server_name="kubernetes"))
        assert (await named.request(GET)).status == 200
        await plain.close()
        await named.close()


def renew(authority: Authority, name: str, directory: Path) -> None:
    """Write a new client certificate and its key into ``c.crt`` and ``c.key``."""
    certificate, secret = authority.issue(name)
    (directory / "c.crt").write_bytes(certificate)
    (directory / "c.key").write_bytes(secret)


@pytest.mark.real_loop(timeout=20)
async def test_client_certificate_is_reloaded_from_changed_files(tmp_path: Path) -> None:
    authority = Authority()
    crt, key = tmp_path / "c.crt", tmp_path / "c.key"
    renew(authority, "before", tmp_path)
    tls = server_context(tmp_path, authority, client_auth=authority)
    async with ScriptedServer(whoami, tls=tls) as server:
        settings = TlsSettings(ca_data=authority.pem, certificate_file=str(crt), key_file=str(key))
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), tls=settings)
        assert json.loads((await transport.request(GET)).body)[0] == ["before"]
        renew(authority, "after", tmp_path)
        assert json.loads((await transport.request(GET)).body)[0] == ["before"], "still the same connection"
        transport._pool._close_idle()  # what the pool does every half minute
        assert json.loads((await transport.request(GET)).body)[0] == ["after"]
        # Half written: the old certificate stays in use, and the reason is logged.
        key.write_bytes(b"half")
        transport._pool._close_idle()
        assert json.loads((await transport.request(GET)).body)[0] == ["after"]
        stream = await transport.open(GET)
        assert json.loads(b"".join([piece async for piece in stream]))[0] == ["after"], "on a new connection too"
        await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_watch_ends_when_its_client_certificate_is_rotated(tmp_path: Path) -> None:
    """And not before. The caller must resume it with the new certificate."""
    authority = Authority()
    crt, key = tmp_path / "c.crt", tmp_path / "c.key"
    renew(authority, "before", tmp_path)
    tls = server_context(tmp_path, authority, client_auth=authority)
    async with ScriptedServer(begin_a_watch, tls=tls) as server:
        settings = TlsSettings(ca_data=authority.pem, certificate_file=str(crt), key_file=str(key))
        endpoint = parse_endpoint(server.url, "test")
        transport = RemoteTransport(endpoint, Env(), tls=settings, idle_seconds=0.3)
        stream = await transport.open(GET)
        assert json.loads(await anext(stream)) == ["before"]
        end = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.25)
        assert not end.done(), "nothing has changed"
        renew(authority, "after", tmp_path)
        with pytest.raises(ConnectionLost):
            await end
        again = await transport.open(GET)
        assert json.loads(await anext(again)) == ["after"]
        await transport.close()


def begin_a_watch(request: ReceivedRequest) -> None:
    """Answers with the common name of the client's certificate, and keeps the answer open."""
    peer = request.connection.transport.get_extra_info("peercert") or {}
    names = [value for part in peer.get("subject", ()) for key, value in part if key == "commonName"]
    request.begin()
    request.chunk(json.dumps(names).encode())


@pytest.mark.real_loop(timeout=20)
async def test_reset_during_the_handshake_leaks_no_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leaked socket would later close a connection with the same file descriptor."""
    result: list[socket.socket] = []
    complaints: list[str] = []
    prepare = dial._prepare

    def keep(sock: socket.socket) -> None:
        prepare(sock)
        result.append(sock)

    monkeypatch.setattr(dial, "_prepare", keep)

    def reset_all(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _address = listener.accept()
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(str(told["message"])))
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        thread = threading.Thread(target=reset_all, args=[listener], daemon=True)
        thread.start()
        endpoint = parse_endpoint(f"https://127.0.0.1:{listener.getsockname()[1]}", "test")
        transport = RemoteTransport(endpoint, Env(), tls=TlsSettings(insecure_skip_verify=True))
        for _ in range(20):
            requests = [transport.open(GET) for _ in range(10)]
            answers = await asyncio.gather(*requests, return_exceptions=True)
            assert all(isinstance(answer, ConnectionError) for answer in answers), answers
            await asyncio.sleep(0.01)
        await transport.close()
        listener.shutdown(socket.SHUT_RDWR)
        await asyncio.to_thread(thread.join, 5)
    assert len(result) == 200
    assert [sock.fileno() for sock in result] == [-1] * 200
    assert complaints == []


@pytest.mark.real_loop(timeout=20)
async def test_handshake_can_be_cancelled_at_any_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that is stopped while its watches connect."""
    authority = Authority()
    monkeypatch.setattr(dial, "connect", connect_immediately)

    async def watch(port: int) -> None:
        transport = RemoteTransport(
            parse_endpoint(f"https://127.0.0.1:{port}", "test"), Env(), tls=TlsSettings(ca_data=authority.pem)
        )
        try:
            await transport.open(GET)
        finally:
            await transport.close()

    outcomes, complaints = await give_up_at_every_step(server_context(tmp_path, authority), watch)
    assert outcomes == {"CancelledError"}
    assert complaints == []


@pytest.mark.real_loop(timeout=20)
async def test_https_uses_a_connect_tunnel(tmp_path: Path) -> None:
    authority = Authority()
    heads: list[bytes] = []
    async with ScriptedServer(
        ReceivedRequest.answer, tls=server_context(tmp_path, authority, dns="api.invalid")
    ) as server:

        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            streams, back = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(copy(reader, back), copy(streams, writer))

        proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
        way = parse_proxy(f"http://me:secret@127.0.0.1:{proxy.sockets[0].getsockname()[1]}", "test")
        endpoint = parse_endpoint("https://api.invalid:6443", "test")
        transport = RemoteTransport(endpoint, Env(), tls=TlsSettings(ca_data=authority.pem), proxy=way)
        assert (await transport.request(GET)).status == 200
        assert (await transport.request(GET)).status == 200
        assert heads == [
            b"CONNECT api.invalid:6443 HTTP/1.1\r\nHost: api.invalid:6443\r\n"
            b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
        ]
        await transport.close()
        await asyncio.sleep(0.05)
        proxy.close()
        await proxy.wait_closed()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass  # one side hung up; so does the other, below
    writer.close()


@pytest.mark.real_loop(timeout=20)
async def test_rejecting_proxy_error_quotes_its_response() -> None:
    async with ScriptedServer(lambda request: request.answer(status=407)) as proxy:
        way = parse_proxy(f"http://127.0.0.1:{proxy.port}", "test")
        transport = RemoteTransport(parse_endpoint("https://api.invalid", "test"), Env(), proxy=way)
        with pytest.raises(ConnectFailed, match=r"did not open a tunnel to api.invalid: it answered 'HTTP/1.1 407"):
            await transport.request(GET)
        await transport.close()


@pytest.mark.real_loop(timeout=20)
@pytest.mark.parametrize("answer", [b"HTTP/1.1 407 No\r\n\r\n", b""], ids=["refused", "closed by the client"])
async def test_failed_tunnel_is_closed(answer: bytes) -> None:
    """Also when the proxy would keep the connection."""
    loop = asyncio.get_running_loop()
    requests, closed = loop.create_future(), loop.create_future()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.set_result(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        closed.set_result(None)
        writer.close()

    proxy = await asyncio.start_server(hold, "127.0.0.1", 0)
    way = parse_proxy(f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}", "test")
    transport = RemoteTransport(parse_endpoint("https://api.invalid", "test"), Env(), proxy=way)
    watch = asyncio.ensure_future(transport.open(GET))
    await requests
    if not answer:
        watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    async with asyncio.timeout(5):
        await closed
    await transport.close()
    proxy.close()


# Credentials


def refusing_all_but(token: str) -> Callable[[ReceivedRequest], None]:
    def handler(request: ReceivedRequest) -> None:
        if request.header("authorization") == f"Bearer {token}":
            request.answer(b"welcome")
        else:
            request.answer(status=401)

    return handler


async def test_token_file_is_reread_periodically(env: Env, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    token = TokenFile(str(path), env, "test")
    assert token.current() == b"Authorization: Bearer one\r\n"
    path.write_text("two\n")
    await asyncio.sleep(49)
    assert token.current() == b"Authorization: Bearer one\r\n"
    await asyncio.sleep(1)
    assert token.current() == b"Authorization: Bearer two\r\n"
    path.unlink()
    await asyncio.sleep(50)
    assert token.current() == b"Authorization: Bearer two\r\n", "better an old one than none"


@pytest.mark.real_loop(timeout=20)
async def test_token_file_is_reread_after_unauthorized(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    async with ScriptedServer(refusing_all_but("new")) as server:
        credentials = TokenFile(str(path), Env(), "test")
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), credentials=credentials)
        assert (await transport.request(wire.Request("POST", "/x"))).status == 401
        path.write_text("new")
        assert (await transport.request(wire.Request("POST", "/x", {}, b"{}"))).body == b"welcome"
        assert len(server.requests) == 3
        await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_unchanged_token_is_not_retried() -> None:
    async with ScriptedServer(refusing_all_but("x")) as server:
        endpoint = parse_endpoint(server.url, "test")
        transport = RemoteTransport(endpoint, Env(), credentials=bearer("y", "test"))
        assert (await transport.request(GET)).status == 401
        assert len(server.requests) == 1
        await transport.close()


async def test_issued_token_is_cached_until_it_expires(env: Env) -> None:
    issued: list[float] = []

    async def issue() -> tuple[str, float]:
        await asyncio.sleep(1)
        issued.append(env.monotonic())
        return f"t{len(issued)}", 60.0

    token = IssuedToken(issue, env, "test")
    logins = await asyncio.gather(*(token.fetch() for _ in range(5)))
    assert set(logins) == {b"Authorization: Bearer t1\r\n"}
    await asyncio.sleep(61)
    assert token.current() is None
    assert await token.fetch() == b"Authorization: Bearer t2\r\n"
    assert await token.rejected(b"Authorization: Bearer t2\r\n")
    assert token.current() == b"Authorization: Bearer t3\r\n"
    assert await token.rejected(b"Authorization: Bearer t1\r\n"), "somebody else has renewed it already"
    assert len(issued) == 3


async def test_issued_token_is_used_while_renewal_fails(env: Env) -> None:
    issued = 0
    away = False

    async def issue() -> tuple[str, float]:
        nonlocal issued
        if away:
            raise ConnectFailed("nobody there")
        issued += 1
        return f"t{issued}", 60.0

    token = IssuedToken(issue, env, "test")
    away = True
    with pytest.raises(ConnectFailed):
        await token.fetch()
    away = False
    await token.fetch()
    away = True
    await asyncio.sleep(61)
    assert await token.fetch() == b"Authorization: Bearer t1\r\n"
    assert not await token.rejected(b"Authorization: Bearer t1\r\n"), "there is no other one to try"
    away = False
    await asyncio.sleep(11)
    assert await token.fetch() == b"Authorization: Bearer t2\r\n"


def plugin(tmp_path: Path, script: str, **settings: object) -> ExecPlugin:
    """A plugin that counts its runs in the file ``runs``."""
    path = tmp_path / "plugin"
    path.write_text(
        f"#!{sys.executable} -S\nimport json, os, sys\nopen({str(tmp_path / 'runs')!r}, 'a').write('x')\n{script}"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    options: dict[str, object] = {"interactive_mode": "Never", "origin": "config: user 'one': exec", **settings}
    return ExecPlugin(ExecSettings(str(path), V1, **options), Env())  # type: ignore[arg-type]


def credential(status: str) -> str:
    return f"print(json.dumps({{'apiVersion': {V1!r}, 'kind': 'ExecCredential', 'status': {status}}}))\n"


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


@pytest.mark.real_loop(timeout=20)
async def test_exec_plugin_runs_once_for_concurrent_requests_and_again_after_unauthorized(tmp_path: Path) -> None:
    token = f"'t' + str(len(open({str(tmp_path / 'runs')!r}).read()))"
    async with ScriptedServer(refusing_all_but("t2")) as server:
        credentials = plugin(tmp_path, credential(f"{{'token': {token}}}"))
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), credentials=credentials)
        answers = await asyncio.gather(*(transport.request(GET) for _ in range(5)))
        assert {answer.body for answer in answers} == {b"welcome"}
        assert runs(tmp_path) == 2
        await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_exec_plugin_with_unchanged_credentials_is_not_rerun(tmp_path: Path) -> None:
    async with ScriptedServer(refusing_all_but("x")) as server:
        credentials = plugin(tmp_path, credential("{'token': 'y'}"))
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), credentials=credentials)
        answers = await asyncio.gather(*(transport.request(GET) for _ in range(20)))
        assert {answer.status for answer in answers} == {401}
        assert runs(tmp_path) == 2
        await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_exec_plugin_gets_the_cluster_and_returns_a_certificate(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue("from-plugin")
    script = "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
    script += f"assert info == {{'kind': 'ExecCredential', 'apiVersion': {V1!r}, "
    script += "'spec': {'interactive': False, 'cluster': {'server': 's'}}}, info\n"
    script += "assert os.environ['COLOUR'] == 'blue' and sys.argv[1:] == ['get', 'token']\n"
    script += credential(f"{{'clientCertificateData': {certificate.decode()!r}, 'clientKeyData': {key.decode()!r}}}")
    tls = server_context(tmp_path, authority, client_auth=authority)
    async with ScriptedServer(whoami, tls=tls) as server:
        credentials = plugin(tmp_path, script, env={"COLOUR": "blue"}, args=["get", "token"], cluster={"server": "s"})
        settings = TlsSettings(ca_data=authority.pem)
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), tls=settings, credentials=credentials)
        assert json.loads((await transport.request(GET)).body) == [["from-plugin"], ""]
        assert runs(tmp_path) == 1
        await transport.close()


@pytest.mark.real_loop(timeout=20)
async def test_expired_credentials_are_not_sent(tmp_path: Path) -> None:
    credentials = plugin(tmp_path, credential("{'token': 't', 'expirationTimestamp': '2020-01-01T00:00:00Z'}"))
    await credentials.fetch()
    assert credentials.current() is None
    later = plugin(tmp_path, credential("{'token': 't', 'expirationTimestamp': '2999-01-01T00:00:00Z'}"))
    await later.fetch()
    assert later.current() == b"Authorization: Bearer t\r\n"


@pytest.mark.real_loop(timeout=20)
@cases(
    "script, settings, message",
    {
        "endless output": ("while True: print('x' * 10_000)", {}, "printed more than 1,048,576 bytes"),
        "deep output": ("print('{\"a\":' * 100_000)", {}, "is not an ExecCredential"),
        "much on standard error": (
            "sys.stderr.write('x' * 1_000_000 + ' log in first'); sys.exit(1)",
            {},
            "exit code 1: x{987} log in first$",
        ),
        "plugin fails": ("sys.exit('log in first')", {}, "exit code 1: log in first$"),
        "not JSON": ("print('hello')", {}, "is not an ExecCredential: JSON is malformed"),
        "another object": ("print('{}')", {}, f"not {V1} ExecCredential as the kubeconfig says"),
        "no credentials in the status": (credential("{}"), {}, "neither a token nor a client certificate"),
        "key without certificate": (credential("{'clientKeyData': 'x'}"), {}, "a key without its certificate"),
        "interactive without terminal": ("", {"interactive_mode": "Always"}, "standard input is not a terminal"),
    },
)
async def test_failing_exec_plugin_error_quotes_its_output(
    tmp_path: Path, script: str, settings: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115  # closed with the test
    with pytest.raises(ConnectFailed, match=f"getting credentials: config: user 'one': exec.*{message}"):
        await plugin(tmp_path, script, **settings).fetch()
    sys.stdin.close()


@pytest.mark.real_loop(timeout=20)
async def test_missing_exec_plugin_error_has_the_install_hint() -> None:
    settings = ExecSettings("no-such-plugin", V1, interactive_mode="Never", install_hint="pip install it")
    with pytest.raises(ConnectFailed, match="executable no-such-plugin not found\n\npip install it"):
        await ExecPlugin(settings, Env()).fetch()
