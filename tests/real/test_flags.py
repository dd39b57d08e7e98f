"""Flag parsing compared with kube-controller-manager of the release in ``KUBEBUILDER_ASSETS``, v1.20 or v1.36.

Only what has not changed between them is compared: how pflag reads words, and the texts of errors.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from tests.real_cluster import minor_version, without_insecure_port

from pilothouse.controllermanager.configz import page
from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flags import FlagError

PROGRAM = shutil.which("kube-controller-manager", path=os.environ.get("KUBEBUILDER_ASSETS", "")) or ""
pytestmark = [
    pytest.mark.real(cluster="none"),
    pytest.mark.skipif(not PROGRAM, reason="KUBEBUILDER_ASSETS has no kube-controller-manager"),
]
# Every line begins with an invalid port, so a program that parses the flags exits there.
STOP = "--secure-port=-1"

LINES = [
    ["--nope"],
    ["now", "then"],
    ["--kube-api-burst=many"],
    ["--kube-api-burst=010"],
    ["--kube-api-burst=0x1F"],
    ["--kube-api-burst=1_0"],
    ["--kube-api-burst=1__0"],
    ["--kube-api-burst= 1"],
    ["--kube-api-burst=99999999999"],
    ["--kube-api-qps=1e3"],
    ["--kube-api-qps=1e999"],
    ["--kube-api-qps=0x1"],
    ["--leader-elect=maybe"],
    ["--leader-elect", "false"],
    ["--leader-elect="],
    ["--leader-elect-lease-duration=1x"],
    ["--leader-elect-lease-duration=1h30m0.5s"],
    ["--bind-address=here"],
    ["--bind-address=::1%eth0"],
    ["--bind-address= ::1 "],
    ["-x"],
    ["-v=4"],
    ["--=x"],
    ["---x"],
    ["-="],
    ["--LEADER-ELECT"],
    ['--controllers=a,"b,c",d'],
    ['--controllers="a""b"'],
    ["--controllers=,"],
    ["--controllers=none", "--controllers=-what"],
    ["--tls-sni-cert-key=a"],
    ["--tls-sni-cert-key=a,b:"],
    ["--tls-sni-cert-key=a,b,c"],
    ["--requestheader-username-headers=,a"],
    ["--max-endpoints-per-slice=0"],
    ["--mirroring-concurrent-service-endpoint-syncs=99"],
    ["--cluster-signing-kubelet-serving-cert-file=b"],
    ["--"],
]


def by_go(words: list[str]) -> str:
    command = [PROGRAM, *without_insecure_port("kube-controller-manager"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Flag --", "I", "W"))]
    # v1.36 prints the usage before the error of a flag, and logs the others.
    logged = re.search(r'"command failed" err="(.*)"$', done.stderr, re.MULTILINE)
    if logged is not None:
        return str(json.loads(f'"{logged[1]}"'))
    return next((line for line in reversed(lines) if line.startswith("Error: ")), lines[0]).removeprefix("Error: ")


def by_us(words: list[str]) -> str:
    flags = flag_set("kube-controller-manager", DESCRIPTORS)
    with pytest.raises(FlagError) as caught:
        options_from(flags.parse(words), DESCRIPTORS)
    return str(caught.value)


def problems(text: str) -> set[str]:
    """Upstream sorts problems by group, and so do we, but groups have moved since."""
    return set(text.removeprefix("[").removesuffix("]").split(", ")) if text.startswith("[") else {text}


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_flag_errors_are_kube_controller_managers(words: list[str]) -> None:
    line = [STOP, *words]
    assert problems(by_us(line)) == problems(by_go(line))


# v1.36 serves nothing before it has reached an API server.
@pytest.mark.skipif(bool(PROGRAM) and minor_version("kube-controller-manager") > 20, reason="not v1.20")
def test_configz_has_every_field_of_kube_controller_manager(tmp_path: Path) -> None:
    """Except fields removed since v1.20; additional fields were added since then."""
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    document = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **document}), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [f"--kubeconfig={kubeconfig}", "--secure-port=0"]
    with subprocess.Popen([PROGRAM, f"--port={port}", *words], stderr=subprocess.DEVNULL) as process:
        expected = flat(fetch(f"http://127.0.0.1:{port}/configz")["kubecontrollermanager.config.k8s.io"])
        process.kill()
    actual = flat(json.loads(page(understood(words)))["kubecontrollermanager.config.k8s.io"])
    # component-base's own structs had no lower-case names yet.
    missing = {path for path in expected if path.lower() not in {known.lower() for known in actual}}
    assert missing == {
        "DeploymentController.DeploymentControllerSyncPeriod",
        "DeprecatedController.DeletingPodsBurst",
        "DeprecatedController.DeletingPodsQPS",
        "DeprecatedController.RegisterRetryCount",
        "HPAController.HorizontalPodAutoscalerDownscaleForbiddenWindow",
        "HPAController.HorizontalPodAutoscalerUpscaleForbiddenWindow",
        "HPAController.HorizontalPodAutoscalerUseRESTClients",
        "NodeLifecycleController.EnableTaintManager",
        "PersistentVolumeBinderController.VolumeHostAllowLocalLoopback",
        "PersistentVolumeBinderController.VolumeHostCIDRDenylist",
    }
    differ = {path for path in actual if path in expected and actual[path] != expected[path]}
    assert differ == {
        "GarbageCollectorController.GCIgnoredResources",
        "Generic.Port",
        "NodeLifecycleController.NodeMonitorGracePeriod",
        "NodeLifecycleController.PodEvictionTimeout",
    }


def understood(words: list[str]) -> Options:
    flags = flag_set("kube-controller-manager", DESCRIPTORS)
    return options_from(flags.parse(words), DESCRIPTORS, flags)


def flat(document: dict[str, object], path: str = "") -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in document.items():
        if isinstance(value, dict) and value:
            result |= flat(value, f"{path}{name}.")
        elif value != {}:
            result[f"{path}{name}"] = value
    return result


def fetch(url: str) -> dict[str, dict[str, object]]:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url) as answer:
                result: dict[str, dict[str, object]] = json.load(answer)
                return result
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
