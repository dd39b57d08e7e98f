"""Flags of the secure port together: front proxy, SNI certificates, TLS 1.3 only."""

import datetime
import socket
import ssl
from pathlib import Path

import pytest
from tests.programs import free_port, pilothouse, until
from tests.real.test_secure_port import get
from tests.real_cluster import RealCluster

from pilothouse.serving.certificates import create_authority, issue_client, issue_server


def test_front_proxy_authentication_and_sni_certificates(real_cluster: RealCluster, directory: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("front", now)
    (directory / "front.crt").write_bytes(authority.certificate)
    proxy, stranger = (directory / "p.crt", directory / "p.key"), (directory / "s.crt", directory / "s.key")
    issue_client(authority, "front-proxy", [], now).save(*proxy)
    issue_client(authority, "stranger", [], now).save(*stranger)
    issue_server(authority, ["manager.example"], now).save(directory / "sni.crt", directory / "sni.key")
    port, kubeconfig = free_port(), real_cluster.kubeconfig
    with pilothouse(
        directory,
        "manager",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--controllers=ttl",
        f"--secure-port={port}",
        f"--requestheader-client-ca-file={directory}/front.crt",
        "--requestheader-allowed-names=front-proxy",
        f"--tls-sni-cert-key={directory}/sni.crt,{directory}/sni.key",
        "--tls-min-version=VersionTLS13",
    ) as manager:
        manager.until("Serving securely")
        admin = {"X-Remote-User": "jane", "X-Remote-Group": "system:masters"}
        assert get(port, "/metrics", certificate=proxy, headers=admin)[0] == 200
        assert get(port, "/metrics", certificate=proxy, headers={"X-Remote-User": "jane"})[0] == 403
        assert get(port, "/metrics", certificate=stranger, headers=admin)[0] == 401
        assert get(port, "/metrics", headers=admin)[0] == 403

        def response_of(name: str) -> bytes:
            context = ssl._create_unverified_context()
            with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(
                plain, server_hostname=name
            ) as secured:  # fmt: skip
                assert secured.version() == "TLSv1.3"
                return secured.getpeercert(binary_form=True) or b""

        def wanted() -> bytes:
            chain = (directory / "sni.crt").read_text()
            return ssl.PEM_cert_to_DER_cert(chain[: chain.index("-----END") + len("-----END CERTIFICATE-----")])

        assert response_of("manager.example") == wanted()
        assert response_of("localhost") != wanted()
        issue_server(authority, ["manager.example"], now).save(directory / "sni.crt", directory / "sni.key")
        until(lambda: response_of("manager.example") == wanted(), "the renewed certificate is served", 5)
        old = ssl._create_unverified_context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError), socket.create_connection(("127.0.0.1", port)) as plain:
            old.wrap_socket(plain, server_hostname="localhost")
        assert manager.stop() == 0
