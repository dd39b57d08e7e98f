"""``pilothouse bugs``: output and exit codes."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.cli.dispatch import main
from pilothouse.simulate.bugs import catalogue, running
from pilothouse.simulate.bugs.declaration import Unguarded


def test_the_list_has_every_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NUMBER", "CONTROLLER", "PATTERN", "UPSTREAM", "TITLE"]
    assert len(lines) == 1 + len(catalogue.BUGS)
    assert re.search(r"^129795 +replicaset-controller +stale state, .* open +Pods are created twice", lines[5])
    assert main(["bugs", "list", "-o", "json"]) == 0
    described = msgspec.json.decode(capsys.readouterr().out)
    assert described[4]["links"] == ["https://github.com/kubernetes/kubernetes/issues/129795"]
    assert described[4]["scenarios"][0]["unguarded"] is True


def test_with_the_guard_and_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", "run", "129795", "--scenario", "lag"]) == 0
    text = capsys.readouterr().out
    assert "the guard held" in text
    assert "failure: " not in text
    assert main(["bugs", "run", "kubernetes#129795", "--scenario", "lag", "--unguarded"]) == 0
    text = capsys.readouterr().out
    for part in (
        "https://github.com/kubernetes/kubernetes/issues/129795",
        "without the guard the bug happened",
        "failure: Violation: /pods/default/web-",
        "3 pods desired, 0 active: creating 3",
        "the end of the log:",
    ):
        assert part in text, part
    assert main(["bugs", "run", "129795", "--scenario", "lag", "--unguarded", "-o", "json"]) == 0
    (outcome,) = msgspec.json.decode(capsys.readouterr().out)
    assert outcome["asDeclared"] is True
    assert outcome["why"]


def test_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("bugs", "run", "129795", "--scenario", "lag", "--unguarded", "-o", "json")
    assert main([*words]) == 0
    (before,) = msgspec.json.decode(capsys.readouterr().out)
    page = tmp_path / "report.html"
    assert main([*words, "--report", str(page)]) == 0
    (outcome,) = msgspec.json.decode(capsys.readouterr().out)
    assert outcome["digest"] == before["digest"]  # recording changes nothing
    text = page.read_text(encoding="utf-8")
    for part in (
        '<a href="https://github.com/kubernetes/kubernetes/issues/129795" rel="noreferrer">',
        "3 pods desired, 0 active: creating 3",
        "without the guard",
        "Causes of the write",
        "pilothouse bugs run 129795 --scenario",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--all", "--report", "r.html"), "--report writes one run: omit --all"),
        (("129795", "--report", "r.html"), "--report writes one run: choose one with --scenario: "),
        (("129795", "--report", "/nowhere/r.html"), "/nowhere/r.html: No such file or directory"),
    ],
)
def test_invalid_report_path(words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", "run", *words]) == 2
    assert expected in capsys.readouterr().err


def test_a_run_that_is_not_as_declared_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = catalogue.find("41675")
    other = msgspec.structs.replace(bug.scenarios[0], unguarded=Unguarded("something else"))
    monkeypatch.setattr(bug, "scenarios", [other])
    assert main(["bugs", "run", "41675", "--unguarded"]) == 1
    text = capsys.readouterr().out
    assert "WITHOUT THE GUARD NOTHING HAPPENED" in text
    assert "expected: something else" in text
    monkeypatch.setattr(catalogue, "BUGS", (bug,))
    assert main(["bugs", "run", "--all"]) == 1
    text = capsys.readouterr().out
    assert "ok  kubernetes#41675  with the guard     synced too early" in text
    assert "BAD kubernetes#41675  without the guard  synced too early" in text
    assert text.endswith("2 runs of 1 bugs, 1 not as declared\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), 'expected "pilothouse bugs list" or "pilothouse bugs run BUG", got nothing'),
        (("show",), 'expected "pilothouse bugs list" or "pilothouse bugs run BUG", got show'),
        (("list", "129795"), 'list takes no name, got "129795"'),
        (("run",), "run takes the name of a bug, or --all"),
        (("run", "129795", "--all"), "run takes the name of a bug, or --all"),
        (("run", "--all", "--unguarded"), "--all runs both ways: omit --unguarded"),
        (("run", "129795", "-o", "yaml"), '-o is text or json, got "yaml"'),
        (("run", "7"), "no known bug is called '7'"),
        (("run", "129795", "--scenario", "x"), "kubernetes#129795 has no scenario 'x'"),
        (("run", "--all", "--scenario", "x"), "no scenario has a name that begins with 'x'"),
        (("run", "43948", "--scenario", "ten", "--unguarded"), "'ten changes within a second', has no run without"),
    ],
)
def test_invalid_command_lines(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bugs", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_signal_leaves_the_results_so_far(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    run = running.run

    def terminated(*arguments: Any, **options: Any) -> running.Outcome:
        if options["unguarded"]:
            os.kill(os.getpid(), signal.SIGTERM)
        return run(*arguments, **options)

    monkeypatch.setattr(running, "run", terminated)
    assert main(["bugs", "run", "--all", "--scenario", "lag", "-o", "json"]) == 143
    done = capfd.readouterr()
    assert [outcome["unguarded"] for outcome in msgspec.json.decode(done.out)] == [False]
    assert re.search(r"SIGTERM: the results so far are written; .*\ninterrupted after 1 of \d+ runs\n", done.err)
