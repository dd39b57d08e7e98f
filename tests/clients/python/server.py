"""The server for Python clients: ``pilothouse up`` with RBAC, over HTTPS, with a data directory.

``UpServer.run`` runs one client's scenario (a program beside this file) as the user ``dev``, who logs in with a client
certificate and has what a cluster's owner would grant an author of operators. ``nobody`` logs in with a token and may
do nothing. When the scenario prints ``RESTART`` the server is restarted on the same port, and objects change meanwhile:
a watch that goes on from before gets 410, since no history is kept across a restart.
"""

import base64
import datetime
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.programs import ROOT, Program, environment, free_port, pilothouse

from pilothouse.serving.certificates import issue_client, load_or_create_authority

NOBODY_TOKEN = "token-of-nobody"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_RETENTION_SECONDS = 1
_RULES = [
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]},
    {"apiGroups": ["example.com"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"]},
]


class UpServer:
    """One server in ``directory``, from ``__enter__`` to ``__exit__``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.expired_versions: list[str] = []
        """For each restart: a previous resourceVersion that the server rejected with 410."""
        self._up: Program | None = None
        (directory / "tokens.csv").write_text(f"{NOBODY_TOKEN},nobody,1001\n")

    def __enter__(self) -> Self:
        self._start(self.port)
        group = "rbac.authorization.k8s.io"
        dev = {"apiGroup": group, "kind": "User", "name": "dev"}
        role = {"apiGroup": group, "kind": "ClusterRole", "name": "author"}
        binding = {"metadata": {"name": "dev"}, "roleRef": role, "subjects": [dev]}
        self.request("POST", f"/apis/{group}/v1/clusterroles", {"metadata": {"name": "author"}, "rules": _RULES})
        self.request("POST", f"/apis/{group}/v1/clusterrolebindings", binding)
        now = datetime.datetime.now(datetime.UTC)
        pair = issue_client(load_or_create_authority(self.directory / "data", "ca", "", now), "dev", [], now)
        certificate = {"client-certificate-data": _text(pair.certificate), "client-key-data": _text(pair.key)}
        self._write_kubeconfig("dev", certificate)
        self._write_kubeconfig("nobody", {"token": NOBODY_TOKEN})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._up is not None:
            self._up.__exit__(kind, error, trace)

    def run(self, scenario: str, *, seconds: float = 200.0) -> str:
        """Run the scenario; returns its output. Fails if it fails."""
        log = self.directory / f"{scenario}.log"
        with log.open("w") as errors:
            client = subprocess.Popen(
                [sys.executable, "-m", f"tests.clients.python.{scenario}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self.directory,
                env=environment(
                    self.directory,
                    PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "src")]),
                    KUBECONFIG=str(self.directory / "dev.kubeconfig"),
                    KUBECONFIG_OF_NOBODY=str(self.directory / "nobody.kubeconfig"),
                ),
            )
        alarm = threading.Timer(seconds, client.kill)
        alarm.start()
        printed = []
        with client:
            try:
                assert client.stdin is not None
                assert client.stdout is not None
                for line in client.stdout:
                    printed.append(line)
                    if line.strip() == "RESTART":
                        self.restart()
                        client.stdin.write("it is back\n")
                        client.stdin.flush()
                code = client.wait(10)
            finally:
                alarm.cancel()
                client.kill()
        assert code == 0, f"{scenario} ended with {code}:\n{''.join(printed)}{log.read_text()[-6000:]}"
        return "".join(printed)

    def restart(self) -> None:
        """Delete the config map ``leaves`` and create ``comes`` while the clients' server is down. Afterwards their
        resourceVersions are older than its history, so that they must relist."""
        page = self.request("GET", f"{CONFIG_MAPS}?limit=1")
        before = page["metadata"]["resourceVersion"]
        self._stop()
        self._start(free_port())
        self.request("DELETE", f"{CONFIG_MAPS}/leaves")
        self.request("POST", CONFIG_MAPS, {"metadata": {"name": "comes", "labels": {"watched": "yes"}}})
        self._stop()
        time.sleep(_RETENTION_SECONDS)
        self._start(self.port, f"--history-retention={_RETENTION_SECONDS}s")
        answer = self.request("GET", f"{CONFIG_MAPS}?watch=true&resourceVersion={before}&timeoutSeconds=1")
        assert answer["type"] == "ERROR" and answer["object"]["code"] == 410, answer
        self.expired_versions.append(before)
        self._check_continue_tokens(page)

    def _check_continue_tokens(self, page: Any) -> None:
        """A continue token from before the restart is expired, and the inconsistent one returns the current rest."""
        rest = f"{CONFIG_MAPS}?continue="
        expired = self.request("GET", rest + page["metadata"]["continue"], refused=410)
        assert expired["reason"] == "Expired" and "too old to display a consistent list" in expired["message"], expired
        names = [
            item["metadata"]["name"] for item in self.request("GET", rest + expired["metadata"]["continue"])["items"]
        ]
        assert page["items"][0]["metadata"]["name"] < min(names), names
        assert "comes" in names or page["items"][0]["metadata"]["name"] >= "comes", names

    def request(self, method: str, path: str, body: Any = None, *, refused: int = 0) -> Any:
        """Send a request as administrator; ``refused`` is an expected error code."""
        token = (self.directory / "data" / "admin.token").read_text()
        return send_request(
            self._url, (self.directory / "data" / "ca.crt").read_bytes(), token, method, path, body, refused
        )

    def _start(self, port: int, *flags: str) -> None:
        self._url = f"https://127.0.0.1:{port}"
        self._up = pilothouse(
            self.directory,
            "up",
            f"--port={port}",
            "--data-dir=data",
            "--authorization-mode=RBAC",
            "--token-auth-file=tokens.csv",
            "--nodes=1",
            "--pod-start-delay=20ms",
            "--pod-stop-delay=20ms",
            *flags,
        )
        self._up.until("pilothouse is ready")

    def _stop(self) -> None:
        assert self._up is not None
        assert self._up.stop() == 0, self._up.log
        assert "Traceback" not in self._up.log, self._up.log

    def _write_kubeconfig(self, name: str, login: dict[str, str]) -> None:
        authority = (self.directory / "data" / "ca.crt").read_bytes()
        cluster = {"server": self._url, "certificate-authority-data": _text(authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": name, "user": login}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": name, "namespace": "default"}}],
            "current-context": "x",
        }
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(document))
        path.chmod(0o600)


def send_request(
    url: str, authority: bytes, token: str, method: str, path: str, body: Any = None, refused: int = 0
) -> Any:
    """Send a request with the token to a server with this CA. ``refused`` is an expected error code."""
    request = urllib.request.Request(
        f"{url}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    context = ssl.create_default_context(cadata=authority.decode())
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            if error.code == refused:
                return json.loads(text)
            raise AssertionError(f"{method} {path}: {text.decode()}") from error


def _text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
