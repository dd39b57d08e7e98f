"""Existing command lines of kube-controller-manager start ours unchanged."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.controllermanager.command_lines import COMMAND_LINES

from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.options import Options
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flags import Parsed

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
"""
_FILE = re.compile(r"(--(?:authentication-|authorization-)?kubeconfig)=\S+")
_CERTIFICATES = re.compile(r"--(?:tls-cert-file|tls-private-key-file|client-ca-file|requestheader-client-ca-file)=\S+")


def understand(words: list[str]) -> tuple[Parsed, Options]:
    flags = flag_set("kube-controller-manager", DESCRIPTORS)
    parsed = flags.parse(words)
    return parsed, options_from(parsed, DESCRIPTORS, flags)


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_command_line_is_accepted(line: str) -> None:
    parsed, options = understand(line.split())
    assert set(parsed.given) == {word[2:].partition("=")[0] for word in line.split()}
    assert options.flag_values["kubeconfig"] == options.kubeconfig != ""


@pytest.mark.parametrize("name", ["kubeadm", "like GKE", "like AKS", "kubespray"])
def test_space_separated_values_and_underscores_are_equivalent(name: str) -> None:
    words = COMMAND_LINES[name].split()
    parsed, options = understand(words)
    apart: list[str] = []
    for word in words:
        flag, _sign, value = word.partition("=")
        spelled = flag.replace("-", "_").replace("__", "--", 1)
        is_boolean = isinstance(parsed[flag[2:]], bool)
        apart += [f"{spelled}={value}"] if is_boolean else [spelled, value]
    assert understand(apart)[1] == options


@pytest.mark.parametrize("line", COMMAND_LINES.values(), ids=COMMAND_LINES)
def test_program_starts_and_waits_for_the_api_server(tmp_path: Path, line: str) -> None:
    """Only the paths of files are replaced."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG, encoding="utf-8")
    text = _CERTIFICATES.sub("", _FILE.sub(rf"\1={kubeconfig}", line))
    own = ["--secure-port=0", "--authentication-skip-lookup"]
    program = [sys.executable, "-c", "import pilothouse.cli as c, sys; sys.exit(c.kube_controller_manager())"]
    with subprocess.Popen([*program, *text.split(), *own], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for logged in process.stderr:
            lines.append(logged)
            if "Waiting for the API server" in logged:
                break
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        lines += process.stderr.readlines()
        assert process.wait(deadline - time.monotonic()) == 0, "".join(lines)
    match = [re.search(r'flag="(\S+)"', logged) for logged in lines]
    ignored = [item.group(1) for item in match if item]
    assert len(ignored) == len(set(ignored)), "one warning for a flag"
    assert not any(logged.startswith("E") for logged in lines), "".join(lines)
