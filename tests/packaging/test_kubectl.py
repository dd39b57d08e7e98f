"""kubectl and an API server accept the manifests. Needs a kubectl; skipped without one."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.clients.test_kubectl import KUBECTL
from tests.packaging.manifests import DEPLOY, MANIFESTS, documents

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH"),
]


def test_every_object_passes_a_strict_server_side_dry_run(tmp_path: Path) -> None:
    assert KUBECTL is not None
    files = [word for name in MANIFESTS for word in ("-f", str(DEPLOY / name))]
    with EmbeddedServer(tmp_path) as server:
        done = subprocess.run(
            [KUBECTL, "apply", "--dry-run=server", "--validate=strict", *files],
            capture_output=True,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "KUBECONFIG": str(server.kubeconfig("admin", token=ADMIN_TOKEN)),
            },
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("created (server dry run)") == sum(len(documents(name)) for name in MANIFESTS)
    assert "Warning" not in done.stderr
