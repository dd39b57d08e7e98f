"""``pilothouse record`` and ``pilothouse replay``, as processes, with kubectl where it is installed."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.programs import environment, pilothouse, run_pilothouse, until
from tests.tables import cases

from pilothouse.snapshots.reading import SnapshotFile

KUBECTL = shutil.which("kubectl", path=f"{os.environ.get('KUBEBUILDER_ASSETS', '')}:{os.environ.get('PATH', '')}")
MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")
def test_rollout_is_recorded_and_replayed(tmp_path: Path) -> None:
    assert KUBECTL is not None
    (tmp_path / "web.yaml").write_text(MANIFEST)

    def kubectl(kubeconfig: str, *words: str, seconds: float = 30.0) -> str:
        command = [KUBECTL, "--kubeconfig", kubeconfig, *words]
        home = environment(tmp_path)
        done = subprocess.run(
            command, cwd=tmp_path, env=home, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with pilothouse(tmp_path, "up", "--port=0", "--kubeconfig=k") as up:
        up.until("pilothouse is ready")
        with pilothouse(tmp_path, "record", "rec", "--kubeconfig=k") as recorder:
            recorder.until("recording in rec: .* objects to begin with")
            kubectl("k", "apply", "-f", "web.yaml")
            kubectl("k", "rollout", "status", "deployment/web")
            kubectl("k", "delete", "deployment", "web")
            until(lambda: not kubectl("k", "get", "pods", "-o", "name"), "the pods are gone")
            time.sleep(0.3)
            recorder.send(signal.SIGINT)
            assert recorder.wait() == 0
            assert recorder.until("recorded .* changes?,")
    changes = SnapshotFile(tmp_path / "rec").changes()
    types = [change.type for change in changes if change.entry.resource.resource == "pods"]
    assert types.count("ADDED") == types.count("DELETED") == 2
    with pilothouse(tmp_path, "replay", "rec", "--port=0", "--kubeconfig=k2", "--speed=0.5") as replay:
        replay.until("replaying from")
        command = [KUBECTL, "--kubeconfig", "k2", "get", "pods", "--watch", "--no-headers"]
        with (tmp_path / "watched").open("w") as output:
            watching = subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stdout=output)
        try:
            replay.until(r"replayed [\d,]+ changes of \d+ seconds")
            until(lambda: "Running" in (tmp_path / "watched").read_text(), "kubectl has seen the pods")
        finally:
            watching.terminate()
            watching.wait(10)
        assert kubectl("k2", "get", "pods", "-o", "name") == "", "it ends as the recording"
        assert kubectl("k2", "get", "nodes", "-o", "name").count("node/") == 3


@cases(
    "words, code, error",
    {
        "record without a file": (["record"], 2, 'expected "pilothouse record FILE"'),
        "record for a negative time": (["record", "f", "--for=-1s"], 2, "--for must not be negative"),
        "anonymous values": (
            ["record", "f", "--anonymize", "--include-secret-values"],
            2,
            "--anonymize and --include-secret-values can't be used together",
        ),
        "replay without a file": (["replay"], 2, 'expected "pilothouse replay FILE"'),
        "replay of nothing": (["replay", "/nowhere"], 1, "/nowhere: No such file or directory"),
        "replay backwards": (["replay", "f", "--speed=-1"], 2, "--speed must not be negative"),
        "replay into a directory": (["replay", "f", "--data-dir=d"], 2, "a replay is in memory: leave out --data-dir"),
    },
)
def test_invalid_command_lines(tmp_path: Path, words: list[str], code: int, error: str) -> None:
    done = run_pilothouse(tmp_path, *words)
    assert done.returncode == code
    assert error in done.stderr
