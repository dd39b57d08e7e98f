"""Files generated from the flag tables are up to date: the reference, completion scripts, manual pages."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.cli import commands_reference, controllers_reference, main
from pilothouse.cli.commands import COMMANDS
from pilothouse.cli.flags_reference import page
from pilothouse.cli.programs import ALIAS, flag_sets, shown_flags
from pilothouse.controllers.registry import DESCRIPTORS

ROOT = Path(__file__).resolve().parents[2]
BASH = shutil.which("bash")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_the_reference_is_up_to_date() -> None:
    written = (ROOT / "docs" / "reference" / "flags.md").read_text(encoding="utf-8")
    assert written == page(), "make flags writes it anew"
    commands = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert commands == commands_reference.page(), "make flags writes it anew"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["completion"], "expected one of bash, zsh, fish, got nothing"),
        (["completion", "bash", "zsh"], "expected one of bash, zsh, fish, got bash zsh"),
        (["man", "kubelet"], "no manual page for kubelet: the pages are pilothouse and kube-controller-manager"),
        (["man", "simulate"], "pilothouse (which has the flags of simulate) and kube-controller-manager"),
        (["help", "kubelet"], 'unknown command "kubelet" for "pilothouse"'),
    ],
)
def test_unknown_commands(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        help_text = printed(capsys, "help", name)
        assert help_text == printed(capsys, name, "--help")
    assert printed(capsys, "help", "snapshot", "save") == printed(capsys, "snapshot", "--help")
    assert printed(capsys, "help", "help") == printed(capsys, "help") == printed(capsys, "--help")


def test_every_guide_is_linked() -> None:
    rows = [line for line in commands_reference.page().splitlines() if line.startswith("| [`pilothouse ")]
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_flag_can_be_completed(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    script = printed(capsys, "completion", shell)
    for command in COMMANDS:
        assert command in script
    for flags in flag_sets().values():
        for flag in shown_flags(flags):
            assert (f"-l {flag.name} " if shell == "fish" else f"--{flag.name}") in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_script(capsys: pytest.CaptureFixture[str], shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(printed(capsys, "completion", shell), encoding="utf-8")
    done = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(BASH is None, reason="no bash here")
@cases(
    "words, offered",
    {
        "commands": (["pilothouse", "man"], ["manager", "man"]),
        "flags": (["pilothouse", "manager", "--logg"], ["--logging-format"]),
        "values": (["pilothouse", "manager", "--logging-format", ""], ["text", "json"]),
        "values behind a sign": (["pilothouse", "manager", "--logging-format", "=", "j"], ["json"]),
        "underscores": (["pilothouse", "manager", "--logging_format", "="], ["text", "json"]),
        "a switch behind a sign": ([ALIAS, "--leader-elect", "=", "f"], ["false"]),
        "flag name": ([ALIAS, "--leader-elect", "--leader-elect-le"], ["--leader-elect-lease-duration"]),
        "item appended to a list": (
            [ALIAS, "--controllers", "=", "*,-x,ttl"],
            ["*,-x,ttl-after-finished-controller", "*,-x,ttl-controller"],
        ),
        "files": ([ALIAS, "--kubeconfig", "/etc/nsswitch.con"], ["/etc/nsswitch.conf"]),
        "folders": ([ALIAS, "--cert-dir", "/us"], ["/usr"]),
        "value without suggestions": ([ALIAS, "--kube-api-qps", "=", ""], []),
        "unknown flag": ([ALIAS, "--nope", "=", ""], []),
        "arguments": (["pilothouse", "completion", ""], ["bash", "zsh", "fish"]),
        "types of objects": (["pilothouse", "why", "deploy"], ["deployments"]),
        "flag of another command": (["pilothouse", "nodes", "--controllers", ""], None),
    },
)
def test_bash_completions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], offered: list[str] | None
) -> None:
    script = tmp_path / "script"
    script.write_text(printed(capsys, "completion", "bash"), encoding="utf-8")
    asked = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pilothouse; '
        '[[ ${#COMPREPLY[@]} -eq 0 ]] || printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert BASH is not None
    done = subprocess.run([BASH, "-c", asked, "bash", str(script), *words], capture_output=True, text=True, check=True)
    result = done.stdout.splitlines()
    if offered is None:
        assert "--nodes" in result
    else:
        assert result == offered


@pytest.mark.parametrize("words", [["man"], ["man", ALIAS]])
def test_the_manual_page_is_complete_and_well_formed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
) -> None:
    text = printed(capsys, *words)
    for command, flags in flag_sets().items():
        if command == "manager" or ALIAS not in words:
            for flag in shown_flags(flags):
                assert f"--{flag.name}".replace("-", "\\-") in text
    groff = shutil.which("groff")
    if groff is not None:
        path = tmp_path / "page.1"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-z", str(path)], capture_output=True, check=True)
        # Some names are longer than a line, and are not to be broken.
        assert [line for line in done.stderr.splitlines() if b"can't break line" not in line] == []


def test_running_commands_do_not_import_generators() -> None:
    code = (
        "import sys, pilothouse.cli.up, pilothouse.controllermanager.options; "
        "print(*(m for m in ('pilothouse.cli.completion', 'pilothouse.cli.man', 'pilothouse.cli.programs', 'yaml', "
        "'pilothouse.controllermanager.upstream_flags', 'pilothouse.controllermanager.validation') "
        "if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_make_flags_writes_the_references(tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make here")
    references = {
        "docs/reference/flags.md": page(),
        "docs/controllers/index.md": controllers_reference.page(),
        "docs/reference/commands.md": commands_reference.page(),
    }
    for reference in references:
        (tmp_path / reference).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / reference).write_text("old", encoding="utf-8")
    binaries = tmp_path / "venv" / "bin"
    binaries.mkdir(parents=True)
    # The environment is this one; only what the target itself does is looked at.
    (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (binaries / "python").chmod(0o755)
    words = [make, "--silent", f"--makefile={ROOT / 'Makefile'}", "VENV=venv", "--assume-old=setup", "flags"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {path: (tmp_path / path).read_text(encoding="utf-8") for path in references} == references


def test_older_api_servers_are_named_for_what_controllers_watch() -> None:
    watched = [watch.kind for descriptor in DESCRIPTORS for watch in descriptor.watches]
    versions = {kind.api_version for kind in watched} | {f"{kind.api_version} {kind.resource}" for kind in watched}
    assert set(controllers_reference.SERVED_SINCE) <= versions
