"""Setup of the secure port: client CAs of the cluster, certificates, TLS versions and ciphers."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.controllermanager.certificates import NOW, PROXIES, USERS
from tests.controllermanager.scripted import Scripted, status
from tests.tables import cases

from pilothouse.client.errors import ConfigError
from pilothouse.client.remote import RemoteTransport
from pilothouse.controllermanager import secure_port
from pilothouse.controllermanager.app import connection_info
from pilothouse.controllermanager.client_trust import ClientTrust
from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllermanager.options import Options, RequestHeader, Serving, SniCertificate
from pilothouse.env import Env, temporary
from pilothouse.serving import openssl
from pilothouse.serving.certificates import issue_server
from pilothouse.serving.server import Server

TARGET = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class ConfigMap:
    """The API server's ConfigMap."""

    def __init__(self) -> None:
        self.refusal: tuple[int, Any] | None = None

    def __call__(self, method: str, target: str, _body: Any) -> tuple[int, Any]:
        assert (method, target) == ("GET", TARGET)
        return self.refusal or (200, {"data": {"client-ca-file": USERS.certificate.decode()}})


async def look_up(env: Env, server: Scripted, *, tolerant: bool = False, proxies: str = "") -> bytes:
    serving = Serving(
        authentication_tolerate_lookup_failure=tolerant, request_header=RequestHeader(client_ca_file=proxies)
    )
    trust = ClientTrust(env, serving)
    await secure_port._read_authentication_config(env, server.client(env), trust, serving)
    return trust.clients.pem if trust.clients is not None else b""


async def test_startup_waits_ten_seconds_for_the_api_server(env: Env) -> None:
    server = Scripted(ConfigMap())
    server.down = True
    asyncio.get_running_loop().call_later(5, setattr, server, "down", False)
    assert await look_up(env, server) == USERS.certificate
    server.down = True
    began = env.monotonic()
    with pytest.raises(ConfigError, match="--authentication-skip-lookup or"):
        await look_up(env, server)
    assert 10 <= env.monotonic() - began < 12


async def test_missing_authentication_config_map_is_logged_once(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    """``RequestHeaderAuthRequestController.RunOnce`` ignores NotFound (apiserver, v0.36)."""

    caplog.set_level("INFO")
    config = ConfigMap()
    config.refusal = status(404, "NotFound", 'configmaps "extension-apiserver-authentication" not found')
    assert await look_up(env, Scripted(config)) == b""
    assert env.monotonic() < 1
    assert caplog.text.count("extension-apiserver-authentication") == 1


@cases(
    "answer, message",
    {
        "forbidden, with what helps": (
            status(403, "Forbidden", "configmaps is forbidden"),
            "is forbidden; usually fixed by 'kubectl create rolebinding -n kube-system ROLEBINDING_NAME"
            " --role=extension-apiserver-authentication-reader --user=THE_USER'",
        ),
        "any other error": (status(500, "InternalError", "etcd is away"), "etcd is away"),
    },
)
async def test_authentication_tolerate_lookup_failure(
    env: Env, answer: tuple[int, Any], message: str, tmp_path: Path
) -> None:
    config = ConfigMap()
    config.refusal = answer
    with pytest.raises(ConfigError, match="unable to load configmap kube-system/extension-") as refused:
        await look_up(env, Scripted(config))
    assert message in str(refused.value)
    assert env.monotonic() < 1
    assert await look_up(env, Scripted(config), tolerant=True) == b""
    # Only the front proxies' CA is required at the start: the users' CA arrives with the watch.
    proxies = tmp_path / "proxies.crt"
    proxies.write_bytes(PROXIES.certificate)
    assert await look_up(env, Scripted(config), proxies=str(proxies)) == b""


@pytest.mark.parametrize("rotates", [True, False])
def test_clients_allow_ca_rotation_gate(rotates: bool, tmp_path: Path) -> None:
    """``ClientsAllowCARotation``: the manager's client, and those for delegated authentication and authorization."""
    (tmp_path / "ca.crt").write_bytes(USERS.certificate)
    cluster = {"server": "https://nowhere", "certificate-authority": "ca.crt"}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    gates = FeatureGates({"ClientsAllowCARotation": rotates})
    options = Options(kubeconfig=str(tmp_path / "config"), gates=gates)
    asking = secure_port._delegate(Env(), Serving(authority_rotation=rotates), options.kubeconfig, None)
    assert asking is not None
    transport = asking.transport
    assert isinstance(transport, RemoteTransport) and transport._contexts is not None
    for settings in (connection_info(options).tls, transport._contexts.settings):
        file = str(tmp_path / "ca.crt")
        assert (settings.ca_file, settings.ca_data) == ((file, b"") if rotates else ("", USERS.certificate))


@cases(
    "min_version, minimum",
    {
        "1.2 by default": ("", ssl.TLSVersion.TLSv1_2),
        "1.3 on request": ("VersionTLS13", ssl.TLSVersion.TLSv1_3),
        "minimum is TLS 1.2": ("VersionTLS10", ssl.TLSVersion.TLSv1_2),
    },
)
def test_tls_min_version(min_version: str, minimum: ssl.TLSVersion) -> None:
    assert secure_port._policy(Serving(tls_min_version=min_version)).minimum_version == minimum


def test_cipher_suites_have_gos_names() -> None:
    names = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA")
    assert secure_port._policy(Serving(tls_cipher_suites=names)).ciphers == ("ECDHE-RSA-AES128-GCM-SHA256",)
    only_13 = secure_port._policy(Serving(tls_cipher_suites=names[1:]))
    assert (only_13.ciphers, only_13.minimum_version) == ((), ssl.TLSVersion.TLSv1_3)


def test_every_cipher_suite_is_known_to_openssl() -> None:
    from pilothouse.controllermanager.cipher_suites import _OPENSSL

    for cipher in _OPENSSL.values():
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(cipher)


async def handshake(serving: Serving, curve: str) -> str:
    """The version that a client speaks which can exchange keys in one way only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ecdh_curve(curve)
    async with Server(nothing, tls=secure_port._tls(Env(), serving, b"")) as server:
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context)
        try:
            return str(writer.get_extra_info("ssl_object").version())
        finally:
            writer.close()


async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """No request is sent."""


@pytest.mark.real_loop
async def test_only_configured_curves_are_used() -> None:
    serving = Serving(tls_curve_preferences=(23, 24))
    assert await handshake(serving, "prime256v1") == "TLSv1.3"
    assert await handshake(serving, "secp384r1") == "TLSv1.3"
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        await handshake(serving, "secp521r1")
    assert await handshake(Serving(), "secp521r1") == "TLSv1.3", "without the flag it is the library's choice"


def test_curve_preferences_have_gos_order() -> None:
    assert secure_port._policy(Serving(tls_curve_preferences=(25, 23, 29))).groups == ("X25519", "P-256", "P-521")


def test_curves_unknown_to_openssl_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert openssl.known_groups(["P-256", "P-nonsense"]) == ("P-256",)
    monkeypatch.setattr(
        openssl, "known_groups", lambda names: tuple(name for name in names if "MLKEM" not in name), raising=True
    )
    assert secure_port._policy(Serving(tls_curve_preferences=(4588, 29))).groups == ("X25519",)
    with pytest.raises(ConfigError, match=r"--tls-curve-preferences: OpenSSL .* supports none of X25519MLKEM768"):
        secure_port._policy(Serving(tls_curve_preferences=(4588,)))


def test_errors_name_unusable_certificates(tmp_path: Path) -> None:
    env = Env()
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issue_server(USERS, ["localhost"], NOW).save(certificate, key)
    absent = SniCertificate(cert_file=str(tmp_path / "absent.crt"), key_file=str(key))
    for serving, match in (
        (Serving(cert_file=str(tmp_path / "absent.crt"), key_file=str(key)), r"absent\.crt: No such file"),
        (Serving(cert_file=str(certificate), key_file=str(certificate)), "are not a certificate and its key"),
        (Serving(sni_certificates=(absent,)), r"absent\.crt: No such file"),
    ):
        with pytest.raises(ConfigError, match=match):
            secure_port._tls(env, serving, b"")


async def test_missing_temporary_directory_is_reported(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container with a read-only root file system and no /tmp, on a system without files in memory."""

    def refuse(**_settings: object) -> None:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/']")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    monkeypatch.setattr(temporary, "_has_memory_files", lambda: False)
    with pytest.raises(ConfigError, match=r"can't be used: No usable temporary directory found"):
        secure_port._tls(env, Serving(), b"")
