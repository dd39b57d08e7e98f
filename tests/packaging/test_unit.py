"""The systemd unit: its flags are valid, and systemd accepts it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.packaging.manifests import DEPLOY
from tests.tables import cases

from pilothouse.cli.manager import flag_set
from pilothouse.controllermanager.flags import options_from
from pilothouse.controllers.registry import DESCRIPTORS

UNIT = DEPLOY / "kube-controller-manager.service"
TEXT = UNIT.read_text(encoding="utf-8")


def settings() -> list[tuple[str, str]]:
    """Name and value, with continued lines joined."""
    lines = TEXT.replace("\\\n", " ").splitlines()
    return [(name, value) for line in lines if line[:1].isalpha() for name, _sign, value in [line.partition("=")]]


def test_flags_are_valid() -> None:
    (command,) = [value for name, value in settings() if name == "ExecStart"]
    program, *flags, more = command.split()
    assert program == "/opt/pilothouse/bin/kube-controller-manager"
    assert more == "$ARGS"
    known = flag_set("kube-controller-manager")
    assert options_from(known.parse(flags), DESCRIPTORS, known).leader_election.enabled


@cases(
    "name, value",
    {
        "no capabilities": ("CapabilityBoundingSet", ""),
        "no new privileges": ("NoNewPrivileges", "yes"),
        "the file system is read-only": ("ProtectSystem", "strict"),
        "private /tmp, which OpenSSL needs": ("PrivateTmp", "yes"),
        "restarts after a lost Lease": ("Restart", "always"),
    },
)
def test_unit_settings(name: str, value: str) -> None:
    assert (name, value) in settings()


def test_user_is_not_root() -> None:
    users = dict(settings())
    assert users["User"] not in ("", "root", "0")


def test_stop_timeout_exceeds_the_shutdown_timeout() -> None:
    assert (
        float(dict(settings())["TimeoutStopSec"])
        > options_from((flags := flag_set("kube-controller-manager")).parse([]), DESCRIPTORS, flags).shutdown_timeout
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on the PATH")
def test_systemd_analyze_verify(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(re.sub(r"(?<=ExecStart=)\S+", "/bin/true", TEXT), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, complaints) == (0, [])
