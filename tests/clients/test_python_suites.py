"""Sample test suites under pytest, and every list method of the official client."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.clients.python.server import send_request
from tests.programs import ROOT, environment

from pilothouse.apiserver.resources import built_in

_SENT: list[dict[str, Any]] = [
    row["sent"] for row in json.loads((ROOT / "tests/apiserver/data/defaults.json").read_text()).values()
]


_ALLOWED = {
    "synchronous": (),
    # kr8s has no way to close its connections.
    "asynchronous": ("-W", "ignore::ResourceWarning"),
}


@pytest.mark.parametrize(("suite", "tests"), [("synchronous", 3), ("asynchronous", 2)])
def test_sample_suite_passes(suite: str, tests: int, tmp_path: Path) -> None:
    source = ROOT / "tests/clients/samples" / f"{suite}.py"
    (tmp_path / f"test_{suite}.py").write_text(source.read_text())
    # Installed or not: by its name as an entry point it is blocked, and then named as a module.
    plugin = ("-p", "no:pilothouse", "-p", "pilothouse.testing.plugin", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "--strict-markers", "-W", "error", *_ALLOWED[suite]],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests} passed" in done.stdout


def test_the_official_client_decodes_a_list_of_every_kind(tmp_path: Path) -> None:
    decoded_kinds = set()
    with EmbeddedServer(tmp_path) as server:
        kubeconfig = server.kubeconfig("admin", token=ADMIN_TOKEN)

        def create(path: str, body: Any) -> None:
            send_request(server.url, server.authority, ADMIN_TOKEN, "POST", path, body)

        create("/api/v1/namespaces", {"metadata": {"name": "d1"}})
        # Through events.k8s.io the server shows an Event of the core group with ``eventTime: null``, as every server
        # does, and the client's model of that group refuses it.
        # Limits of containers are created last: they would be defaulted in later pods.
        for info in sorted(built_in(), key=lambda info: info.resource == "limitranges"):
            for sent in (row for row in _SENT if (row["apiVersion"], row["kind"]) != ("v1", "Event")):
                if "create" not in info.verbs or "list" not in info.verbs:
                    continue
                if (sent["apiVersion"], sent["kind"]) != (info.api_version, info.kind):
                    continue
                root = f"/apis/{info.api_version}" if info.group else f"/api/{info.version}"
                body = json.loads(json.dumps(sent).replace('"namespace": "default"', '"namespace": "d1"'))
                body["metadata"].pop("namespace", None)
                if info.resource == "pods":
                    # Filled in where these were sent; a pod with a token must name one.
                    body["spec"].setdefault("serviceAccountName", "default")
                create(f"{root}/namespaces/d1/{info.resource}" if info.namespaced else f"{root}/{info.resource}", body)
                decoded_kinds.add(f"{info.api_version} {info.kind}")
        done = subprocess.run(
            [sys.executable, "-m", "tests.clients.python.every_list"],
            cwd=tmp_path,
            env=environment(
                tmp_path, PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "src")]), KUBECONFIG=str(kubeconfig)
            ),
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
    decoded = json.loads(done.stdout)
    assert decoded["lists"] > 90
    assert len(decoded_kinds) > 50
    assert not {kind for kind in decoded_kinds if not decoded["items"].get(kind)}, "each is in a list"
    listed = {f"{info.api_version} {info.kind}" for info in built_in() if "list" in info.verbs}
    assert not listed - set(decoded["items"]), "nothing that is served is left out"
