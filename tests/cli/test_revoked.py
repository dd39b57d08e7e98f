"""Credentials that are revoked while the manager runs, and become valid again."""

import base64
import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from tests.programs import free_port, pilothouse, run_pilothouse, until
from tests.workloads import pod_spec, workload

TOKEN = "manager-token"
WANTED = workload("ReplicaSet", pod=pod_spec("nginx"), replicas=2)


def send_request(directory: Path, method: str, path: str, body: Any = None) -> Any:
    """One request as the administrator."""
    config = yaml.safe_load((directory / "admin").read_text())
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(cluster["server"] + path, data, headers, method=method)
    with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority)) as answer:
        return json.load(answer)


def test_manager_survives_a_revoked_token(tmp_path: Path) -> None:
    """A running manager logs the error and continues, since tokens are renewed; at startup it is an error."""
    port = free_port()
    serve = ["apiserver", f"--port={port}", "--data-dir=data", "--token-auth-file=tokens", "--kubeconfig=admin"]
    listed, empty = f'{TOKEN},manager,1,"system:masters"\n', "other-token,nobody,2\n"
    (tmp_path / "tokens").write_text(listed)
    manage = [
        "manager",
        "--kubeconfig=kubeconfig",
        "--controllers=replicaset",
        "--secure-port=0",
        "--leader-elect=false",
    ]
    with pilothouse(tmp_path, *serve) as server:
        server.until("API server ready")
        config = yaml.safe_load((tmp_path / "admin").read_text())
        config["users"][0]["user"] = {"token": TOKEN}
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        manager = pilothouse(tmp_path, *manage)
        manager.until("Starting controller")
        assert server.stop() == 0
    with manager:
        (tmp_path / "tokens").write_text(empty)
        with pilothouse(tmp_path, *serve) as server:
            server.until("API server ready")
            manager.until('err="Unauthorized"')
            second = run_pilothouse(tmp_path, *manage)
            assert second.returncode == 1
            (error,) = [line for line in second.stderr.splitlines() if line.startswith("Error: ")]
            assert error.startswith("Error: the API server at https://127.0.0.1:")
            assert "of kubeconfig) does not accept the credentials in use: Unauthorized." in error
            assert server.stop() == 0
        (tmp_path / "tokens").write_text(listed)
        with pilothouse(tmp_path, *serve) as server:
            server.until("API server ready")
            send_request(tmp_path, "POST", "/apis/apps/v1/namespaces/default/replicasets", WANTED)
            pods = "/api/v1/namespaces/default/pods"
            until(lambda: len(send_request(tmp_path, "GET", pods)["items"]) == 2, "the manager works again")
            assert server.stop() == 0
        assert manager.stop() == 0
    assert "Traceback" not in manager.log
