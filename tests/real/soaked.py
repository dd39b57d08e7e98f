"""The managers of the soak: their certificate files are replaced while they run, and they are measured externally."""

import datetime
import ipaddress
import json
import os
import re
import ssl
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from tests.programs import Program, free_port, pilothouse
from tests.real_cluster import RealCluster

USER = "system:kube-controller-manager"
LIFETIME = datetime.timedelta(seconds=60)
"""The lifetime of client certificates. A manager that does not reload them gets 401 during the soak."""

_SERVER_NAMES = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]


class Identity:
    """A kubeconfig that names certificate files, and a serving certificate. All are replaced at once, as the kubelet
    and cert-manager do it: by turning a link to another folder."""

    def __init__(self, cluster: RealCluster, directory: Path, port: int) -> None:
        self._cluster = cluster
        self._directory = directory
        self.rotations = -1
        self.serving = b""
        """The newest serving certificate."""
        self.kubeconfig = directory / "kubeconfig"
        self.rotate()
        real = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(cluster.ca_file)}
        user = {"client-certificate": "now/client.crt", "client-key": "now/client.key"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": real}],
            "users": [{"name": USER, "user": user}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": USER}}],
            "current-context": "real",
        }
        self.kubeconfig.write_text(json.dumps(document))

    def rotate(self) -> None:
        """Issue new certificates and keys."""
        self.rotations += 1
        folder = self._directory / f"certificates-{self.rotations}"
        folder.mkdir()
        client = self._cluster.issue(USER, (), LIFETIME)
        server = self._cluster.issue("manager", (), datetime.timedelta(days=1), _SERVER_NAMES)
        for name, pair in (("client", client), ("server", server)):
            for ending, content in zip(("crt", "key"), pair, strict=True):
                (folder / f"{name}.{ending}").write_bytes(content)
        link = self._directory / "next"
        link.symlink_to(folder.name)
        os.replace(link, self._directory / "now")
        self.serving = server[0]

    def file(self, name: str) -> Path:
        """The path of a file of the newest certificates."""
        return self._directory / "now" / name


@dataclass(frozen=True)
class Measures:
    """External measurements of a process."""

    resident_mb: float
    objects: int
    """Objects tracked by the garbage collector."""
    tasks: Counter[str]
    """Tasks by name, without numbers."""
    files: int

    @property
    def words(self) -> str:
        return (
            f"{self.resident_mb:.1f} MB resident, {self.objects} objects, {self.tasks.total()} tasks,"
            f" {self.files} open files"
        )


class Manager:
    """``pilothouse manager`` with all controllers, each with its own identity."""

    def __init__(self, directory: Path, identity: Identity, lease: tuple[str, ...], name: str) -> None:
        self.port = free_port()
        flags = [
            f"--kubeconfig={identity.kubeconfig}",
            f"--authentication-kubeconfig={identity.kubeconfig}",
            f"--authorization-kubeconfig={identity.kubeconfig}",
            "--use-service-account-credentials",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--tls-cert-file={identity.file('server.crt')}",
            f"--tls-private-key-file={identity.file('server.key')}",
            "--authorization-always-allow-paths=/metrics,/readyz,/debug/pprof/*",
            "--v=2",
        ]
        self.program: Program = pilothouse(directory, "manager", *flags, *lease, name=name)

    def page(self, path: str) -> str:
        """The response of a path of the secure port."""
        unverified = ssl._create_unverified_context()
        with urllib.request.urlopen(f"https://127.0.0.1:{self.port}{path}", context=unverified, timeout=10) as page:
            text: str = page.read().decode()
        return text

    def unknown(self) -> int:
        """The number of 401 responses."""
        counts = re.findall(r'^rest_client_requests_total\{code="401",.*\} (\d+)', self.page("/metrics"), re.MULTILINE)
        return sum(map(int, counts))

    def resident_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self.program.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) / 1024

    def measure(self) -> Measures:
        """All measurements."""
        heap = re.search(r"# gc objects = (\d+)", self.page("/debug/pprof/heap?gc=1"))
        assert heap is not None
        names = re.findall(r"^task (.*):$", self.page("/debug/pprof/goroutine?debug=2"), re.MULTILINE)
        files = len(os.listdir(f"/proc/{self.program.process.pid}/fd"))
        tasks = Counter(re.sub(r"\d+", "N", name) for name in names)
        return Measures(self.resident_mb(), int(heap[1]), tasks, files)
