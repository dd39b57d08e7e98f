"""Kubeconfig: merging, paths, credentials, and errors that name the file, the entry, the reason and the fix."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.client.certificates import Authority
from tests.tables import cases

from pilothouse.client.connect import ConnectionInfo, connect, find, in_pod
from pilothouse.client.credentials import Anonymous, StaticHeader, TokenFile
from pilothouse.client.endpoint import Proxy, parse_endpoint, parse_proxy, proxy_from_environment
from pilothouse.client.errors import ConfigError
from pilothouse.client.exec_plugin import ExecPlugin
from pilothouse.client.kubeconfig import load
from pilothouse.env import Env


def config(
    *,
    cluster: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    current: str = "one",
    **more: Any,
) -> dict[str, Any]:
    name = "one"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": "https://api.example:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": dict(user or {})}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        **more,
    }


def write(path: Path, document: object) -> str:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


def connection_info(tmp_path: Path, document: object, **options: Any) -> ConnectionInfo:
    return find(kubeconfig=write(tmp_path / "config", document), environ={}, **options)


def test_one_file(tmp_path: Path) -> None:
    info = connection_info(tmp_path, config(cluster={"server": "https://api.example/prefix/"}, user={"token": "t"}))
    assert str(info.endpoint) == "https://api.example/prefix"
    assert (info.endpoint.port, info.namespace) == (443, "ns-one")
    assert info.login(Env()).current() == b"Authorization: Bearer t\r\n"


def test_json_is_accepted_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    document = json.dumps({**config(), "preferences": {}, "extensions": None, "colour": "blue"}, indent=1)
    assert connection_info(tmp_path, document).endpoint.host == "api.example"


def test_first_file_with_an_entry_wins(tmp_path: Path) -> None:
    first = config(cluster={"server": "https://first"}, user={"token": "first"})
    first["current-context"] = ""
    second = config(cluster={"server": "https://second"}, user={"token": "second"})
    second["contexts"].append({"name": "two", "context": {"cluster": "one", "user": "one"}})
    second["current-context"] = "two"
    names = [write(tmp_path / "a", first), str(tmp_path / "missing"), write(tmp_path / "b", second)]
    info = find(environ={"KUBECONFIG": ":".join(names)})
    assert info.endpoint.host == "first"
    assert info.namespace == "", "the current context is the first that is set: two, from the second file"
    assert info.login(Env()).current() == b"Authorization: Bearer first\r\n"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    user = {"client-certificate": "c.crt", "client-key": "/abs/c.key"}
    document = config(cluster={"certificate-authority": "pki/ca.crt"}, user=user)
    info = find(kubeconfig=write(tmp_path / "elsewhere" / "config", document), environ={})
    assert info.tls.ca_file == str(tmp_path / "elsewhere" / "pki" / "ca.crt")
    assert (info.tls.certificate_file, info.tls.key_file) == (str(tmp_path / "elsewhere" / "c.crt"), "/abs/c.key")


def test_context_and_server_overrides(tmp_path: Path) -> None:
    document = config()
    document["contexts"].append({"name": "two", "context": {"cluster": "one", "user": "one", "namespace": "other"}})
    info = connection_info(tmp_path, document, context="two", master="http://127.0.0.1:8080")
    assert (info.namespace, str(info.endpoint)) == ("other", "http://127.0.0.1:8080")


def test_impersonation_headers(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"example.org/x": ["1", "2"]}}
    assert connection_info(tmp_path, config(user=user)).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.org%2Fx", "1"),
        ("Impersonate-Extra-example.org%2Fx", "2"),
    )


@cases(
    "user, kind",
    {
        "no credentials": ({}, Anonymous),
        "token": ({"token": "t"}, StaticHeader),
        "a token file takes precedence over a token": ({"token": "t", "tokenFile": "token"}, TokenFile),
        "basic": ({"username": "u", "password": "p"}, StaticHeader),
        "exec": (
            {"exec": {"command": "c", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}},
            ExecPlugin,
        ),
        "exec v1beta1 needs no interactiveMode": (
            {"exec": {"command": "c", "apiVersion": "client.authentication.k8s.io/v1beta1"}},
            ExecPlugin,
        ),
    },
)
def test_credentials(tmp_path: Path, user: dict[str, Any], kind: type) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert type(connection_info(tmp_path, config(user=user)).login(Env())) is kind


V1 = "client.authentication.k8s.io/v1"


@cases(
    "document, message",
    {
        "invalid YAML": ("a: [", "config: the kubeconfig is not YAML: .*line [12]"),
        "not a mapping": ("just text", "config: the kubeconfig is malformed: Expected `object`"),
        "not a list": ({"clusters": {"a": 1}}, r"malformed: Expected `array`, .* at `\$.clusters`"),
        "another kind": (
            {"kind": "Deployment", "apiVersion": "apps/v1"},
            "the kind is Deployment of apps/v1; a kubeconfig has Config of v1",
        ),
        "empty": ("", "config: no current-context is set; .*the file has none"),
        "missing current-context": (config(current=""), "no current-context is set; .*; there is one"),
        "context": (config(current="x"), "context 'x' does not exist; there is one"),
        "missing cluster": (config(clusters=[]), "names the cluster 'one', which does not exist"),
        "missing user": (config(users=[]), "context 'one' names the user 'one', which does not exist"),
        "missing server": (config(cluster={"server": ""}), "config: cluster 'one' has no server"),
        "scheme": (config(cluster={"server": "ftp://x"}), "must begin with https:// or http://"),
        "port": (config(cluster={"server": "https://x:port"}), "cluster 'one': 'https://x:port' is not"),
        "CA not base64": (
            config(cluster={"certificate-authority-data": "%%%"}),
            "config: cluster 'one': certificate-authority-data is not base64",
        ),
        "certificate not base64": (
            config(user={"client-certificate-data": "YQ"}),
            "config: user 'one': client-certificate-data is not base64",
        ),
        "CA file missing": (
            config(cluster={"certificate-authority": "nowhere.crt"}),
            r"config: cluster 'one', user 'one': cannot read the certificate authority .*/nowhere.crt: No such file",
        ),
        "CA not PEM": (
            config(cluster={"certificate-authority-data": base64.b64encode(b"x").decode()}),
            "the certificate authority in certificate-authority-data is not a PEM certificate",
        ),
        "insecure with a CA": (
            config(cluster={"certificate-authority": "x", "insecure-skip-tls-verify": True}),
            "insecure-skip-tls-verify and a certificate authority exclude each other",
        ),
        "client certificate missing": (
            config(user={"client-certificate": "a.crt", "client-key": "a.key"}),
            r"cannot read the client certificate .*/a.crt: No such file",
        ),
        "client certificate without key": (
            config(user={"client-certificate": "a.crt"}),
            "a client certificate without its key",
        ),
        "client key without certificate": (
            config(user={"client-key": "a.key"}),
            "a client key without its certificate",
        ),
        "t": (config(user={"tokenFile": "t"}), "cannot read the token file .*/t: No such"),
        "empty token file": (config(user={"tokenFile": "empty"}), "the token file .*/empty is empty"),
        "line break in a token": (config(user={"token": "a\nb"}), "characters that no HTTP header can carry"),
        "two authentication methods": (
            config(user={"token": "t", "username": "u"}),
            "more than one way to log in; leave either",
        ),
        "auth-provider": (
            config(user={"auth-provider": {"name": "gcp"}}),
            "user 'one': auth-provider 'gcp' is not supported .*use an exec plugin",
        ),
        "groups without as": (config(user={"as-groups": ["a"]}), "say nothing without as; name a user"),
        "exec without command": (config(user={"exec": {"apiVersion": V1}}), "exec: command is missing"),
        "old exec": (
            config(user={"exec": {"command": "c", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}),
            "v1alpha1' is not supported; update the plugin and write one of",
        ),
        "exec v1": (config(user={"exec": {"command": "c", "apiVersion": V1}}), "interactiveMode must be"),
        "socks": (config(cluster={"proxy-url": "socks5://p:1080"}), "SOCKS proxies .* are not supported"),
    },
)
def test_error_messages(tmp_path: Path, document: object, message: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ConfigError, match=message) as caught:
        connection_info(tmp_path, document).transport(Env())
    assert str(tmp_path / "config") in str(caught.value)


def test_expired_client_certificate_error_has_its_date(tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue("jane", days=-1)
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    message = r"user 'one': client-certificate-data expired on \d{4}-\d\d-\d\d .* UTC; get a new kubeconfig or renew"
    with pytest.raises(ConfigError, match=message):
        connection_info(tmp_path, config(user=user)).transport(Env())


def test_mismatching_key_is_an_error(tmp_path: Path) -> None:
    authority = Authority()
    (certificate, _), (_, key) = authority.issue("a"), authority.issue("b")
    (tmp_path / "a.crt").write_bytes(certificate)
    (tmp_path / "b.key").write_bytes(key)
    with pytest.raises(ConfigError, match="certificate and key do not belong together"):
        connection_info(tmp_path, config(user={"client-certificate": "a.crt", "client-key": "b.key"})).transport(Env())


@cases(
    "prepare, message",
    {
        "missing": (lambda path: None, "config: there is no such kubeconfig file"),
        "a directory": (lambda path: path.mkdir(), "config: cannot read the kubeconfig: Is a directory"),
    },
)
def test_unreadable_file_error(tmp_path: Path, prepare: Any, message: str) -> None:
    prepare(tmp_path / "config")
    with pytest.raises(ConfigError, match=message):
        find(kubeconfig=str(tmp_path / "config"), environ={})


def test_missing_configuration_error_lists_the_options(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give --kubeconfig FILE or --master URL, set KUBECONFIG, or run in a pod"):
        find(environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*nowhere"):
        find(environ={"KUBECONFIG": str(tmp_path / "nowhere")})


def test_order_of_sources(tmp_path: Path) -> None:
    home, listed = tmp_path / "home", tmp_path / "listed"
    (home / ".kube").mkdir(parents=True)
    write(home / ".kube" / "config", config(cluster={"server": "https://home"}))
    write(listed, config(cluster={"server": "https://listed"}))
    environ = {"HOME": str(home)}
    assert find(environ=environ).endpoint.host == "home"
    environ["KUBECONFIG"] = str(listed)
    assert find(environ=environ).endpoint.host == "listed"
    assert str(find(environ=environ, master="10.0.0.1:8080").endpoint) == "http://10.0.0.1:8080"
    explicit = write(tmp_path / "explicit", config(cluster={"server": "https://explicit"}))
    assert find(environ=environ, kubeconfig=explicit).endpoint.host == "explicit"


def test_in_cluster_config(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match=r"there is no .*token; is automountServiceAccountToken off"):
        in_pod(environ, tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(Authority().pem)
    (tmp_path / "namespace").write_text("kube-system")
    info = in_pod(environ, tmp_path)
    assert (str(info.endpoint), info.namespace) == ("https://[fd00::1]", "kube-system")
    assert info.transport(Env()).host == "fd00::1:443"


def test_exec_plugin_gets_cluster_info(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"PEM")
    plugin = {"command": "./bin/login", "apiVersion": V1, "interactiveMode": "Never", "provideClusterInfo": True}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "n", "extensions": [extension]}
    path = Path(write(tmp_path / "config", config(cluster=cluster, user={"exec": plugin})))
    settings = load([path], explicit=True).select().exec_settings()
    assert settings is not None
    assert settings.command == str(tmp_path / "bin" / "login"), "with a separator it is relative to the file"
    assert settings.cluster == {
        "server": "https://api.example:6443",
        "tls-server-name": "n",
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        "config": {"audience": "x"},
    }


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://api.example:6443", "", True),
        ("https://api.example:6443", "*", False),
        ("https://api.example:6443", "example", False),
        ("https://api.example:6443", ".example", False),
        ("https://example:6443", ".example", True),
        ("https://notexample:6443", "example", True),
        ("https://api.example:6443", "other, api.example:6443", False),
        ("https://api.example:6443", "api.example:443", True),
        ("https://10.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.1.2.3", False),
        ("https://11.1.2.3", "10.0.0.0/8", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("http://api.example", "", False),
    ],
)
def test_no_proxy(server: str, no_proxy: str, proxied: bool) -> None:
    environ = {"HTTPS_PROXY": "http://u:p%40@proxy:3128", "no_proxy": no_proxy}
    proxy = proxy_from_environment(parse_endpoint(server, "test"), environ)
    assert proxy == (Proxy("http", "proxy", 3128, "Basic dTpwQA==") if proxied else None)


def test_proxy_without_a_scheme_is_http() -> None:
    assert parse_proxy("proxy:3128", "test") == Proxy("http", "proxy", 3128)


def test_connect_sends_no_requests(tmp_path: Path) -> None:
    transport = connect(Env(), kubeconfig=write(tmp_path / "config", config()), environ={})
    assert transport.host == "api.example:6443"
