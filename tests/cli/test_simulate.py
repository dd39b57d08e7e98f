"""``pilothouse simulate``: output, files and exit codes."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest

from pilothouse.cli.dispatch import main
from pilothouse.simulate.outputs import recordings

SCENARIO = """apiVersion: simulate.pilothouse.io/v1alpha1
kind: Scenario
metadata: {name: growth}
spec:
  cluster: {nodeGroups: [{name: node, count: 2, profile: quick}]}
  objects:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: "web:1"}]}
  timeline:
  - {at: 10s, cordon: {name: node-0}}
  - {at: 20s, scale: {deployment: web, replicas: 5}}
  - {at: 30s, uncordon: {name: node-0}}
  faults: {count: 2, within: 30s}
  until: {time: 1m}
  expect:
    always: [{name: few, cel: objects.pods.size() <= 4}]
"""
HERE = ("--jobs", "0")
HOLDS = ("--set", "expect.always.few.cel=objects.pods.size() <= 40")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "growth.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    return str(file)


def test_passing_scenario(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, *HOLDS, *HERE]) == 0
    out = capsys.readouterr().out
    assert out.startswith("growth, seed 0: passed; 1m of virtual time in ")
    assert "maxUnavailable deployment/web" in out


def test_failure_is_shrunk_and_can_be_replayed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, "--seeds", "3-5", *HERE]) == 1
    out = capsys.readouterr().out
    assert "seed 3 fails after 50s: always few: it does not hold" in out  # with all parts
    assert "  with these it fails after 20s: always few: it does not hold" in out
    assert "why it was written" in out
    assert "1 of 5 actions and faults reproduce the failure" in out
    assert "    [1] at 20s: scale deployments/web replicas 5\n" in out
    replay = next(line for line in out.splitlines() if line.startswith("  replay: "))
    program, *words = shlex.split(replay.removeprefix("  replay: "))
    assert (program, *words) == ("pilothouse", "simulate", path, "--seeds", "3", "--only", "1")
    assert main([*words, *HERE]) == 1
    again = capsys.readouterr().out
    assert "seed 3 fails after 20s: always few: it does not hold" in again
    assert replay in again


def test_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, "-o", "json", "--seeds", "3,4", "--keep-going", "--shrink-runs", "0", *HERE]) == 1
    document = msgspec.json.decode(capsys.readouterr().out)
    assert [(run["seed"], run["passed"]) for run in document["runs"]] == [(3, False), (4, False)]
    [failure] = document["failures"]
    assert (failure["seed"], failure["failure"]["kind"], len(failure["parts"])) == (3, "always", 5)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([], "expected the file of a scenario", id="missing argument"),
        pytest.param(["none.yaml"], "none.yaml: unable to read the scenario: No such file", id="missing file"),
        pytest.param(["PATH", "--seeds", "9-1"], 'the range of seeds "9-1" ends before it begins', id="seeds"),
        pytest.param(["PATH", "--seeds", "1-9999999"], "at most 1000000 seeds", id="too many seeds"),
        pytest.param(["PATH", "--only", "x"], "expected numbers of parts such as 0,3", id="parts"),
        pytest.param(["PATH", "-o", "yaml"], "-o is text or json", id="output"),
        pytest.param(["PATH", "--jobs=-2"], "--jobs must be -1 or more, got -2", id="jobs"),
        pytest.param(["PATH", "--timeout=-1s"], "--timeout must not be negative", id="timeout"),
        pytest.param(["PATH", "--shrink-runs=-1"], "--shrink-runs must not be negative, got -1", id="shrink runs"),
        pytest.param(["PATH", "--set", "x"], "expected PATH=VALUE", id="setting"),
        pytest.param(["PATH", "--set", "objects.wep.spec.replicas=1"], "no object of the scenario", id="object"),
        pytest.param(["PATH", "--set", "expect.always.few.cel=pods"], "undeclared reference", id="expression"),
        pytest.param(["PATH", "--set", "timeline.none.at=1s"], "there is no none", id="name"),
        pytest.param(["PATH", "--report", "r.pdf"], "r.pdf: an HTML page is written; choose a name that ends in .html"),
        pytest.param(["PATH", "--plot", "p.png"], "p.png: SVG is written; choose a name that ends in .svg"),
        pytest.param(["PATH", "--set", "cluster.nodeGroups.node.count=[}"], "is not YAML", id="YAML"),
    ],
)
def test_invalid_command_lines(path: str, capsys: pytest.CaptureFixture[str], words: list[str], expected: str) -> None:
    assert main(["simulate", *(path if word == "PATH" else word for word in words)]) == 2
    assert expected in capsys.readouterr().err


def test_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--schema"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["title"] == "pilothouse scenario"


def test_invalid_variant_is_named(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, "--vary", "timeline[1].scale.replicas=5,many"]) == 2
    assert re.search(
        r"growth\.yaml:\d+: spec\.timeline\[1\]\.scale\.replicas \(from the command line\): .*"
        r" \(with timeline\[1\]\.scale\.replicas=many\)",
        capsys.readouterr().err,
    )


def test_comparison_shows_the_command_for_one_run(path: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    words = [*HOLDS, "--seeds", "1-2", "--report", str(report), *HERE]
    assert main(["simulate", path, *words]) == 0
    text = report.read_text(encoding="utf-8")
    match = re.search(r"Repeat this run: <code>(.*?)</code>", text)
    assert match is not None
    assert text.index("The worst run: seed ") < text.index("Work queues") < match.start()
    assert re.fullmatch(
        rf"pilothouse simulate {re.escape(path)} --seeds [12] --set .* --report report.html",
        match[1],
    )


def test_variants_are_compared(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit, record = tmp_path / "junit.xml", tmp_path / "recordings.jsonl"
    vary = ["--vary", "timeline[1].scale.replicas=3,5", "--vary", "cluster.nodeGroups.node.count=2", "--seeds", "1-2"]
    assert main(["simulate", path, *vary, "--junit", str(junit), "--record", str(record), "--jobs", "0"]) == 1
    out = capsys.readouterr().out
    assert "seed 1 with timeline[1].scale.replicas=5, cluster.nodeGroups.node.count=2 fails after 20s" in out
    assert "growth: 2 variants, 4 runs, 2 failed" in out
    rows = [line.split("  ") for line in out.splitlines() if line.startswith("replicas=")]
    assert [(row[0], row[1].strip()) for row in rows[:2]] == [
        ("replicas=3, count=2", "0 of 2"),
        ("replicas=5, count=2", "2 of 2"),
    ]
    suites = ET.parse(junit).getroot()
    assert [(suite.get("tests"), suite.get("failures")) for suite in suites] == [("2", "0"), ("2", "2")]
    assert "replay: pilothouse simulate" in str(suites[1][0][1].text)
    recorded = list(recordings.read(record))
    assert [(item.variant, item.seed) for item in recorded] == [
        (f"replicas={replicas}, count=2", seed) for replicas in (3, 5) for seed in (1, 2)
    ]


_HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pilothouse.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("sent", "code"), [pytest.param(signal.SIGINT, 130, id="Ctrl-C"), pytest.param(signal.SIGTERM, 143, id="SIGTERM")]
)
def test_a_signal_ends_all_processes_and_leaves_the_results_so_far(
    path: str, tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    """Also if it arrives twice."""
    junit, output = tmp_path / "junit.xml", ("-o", "json") if sent == signal.SIGTERM else ()
    words = ["simulate", path, *HOLDS, "--seeds", "1-100000", "--jobs", "2", "--junit", str(junit), *output]
    # What runs in the background of a script ignores the signal, and so would its children.
    command = [sys.executable, "-c", _HEARS_CTRL_C, *words]
    environment = {**os.environ, "COLUMNS": "120"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 30
        while not (result := children.read_text(encoding="utf-8").split()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        # A terminal sends Ctrl-C to all processes, a CI service SIGTERM to the first one. `timeout` of coreutils sends
        # it to the first one and then to all, and npm passes on the Ctrl-C that all have received.
        os.killpg(process.pid, sent) if sent == signal.SIGINT else process.send_signal(sent)
        time.sleep(0.005)
        process.send_signal(sent)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code, err
    if output:
        assert json.loads(out)["interrupted"]
    else:
        assert re.search(r"growth: [\d,]+ of 100,000 runs, [\d,]+ passed, 0 failed", out)
    at_once = f"\n{sent.name}: the results so far are written; a second signal ends at once\n"
    assert err.endswith(at_once + ("" if output else "interrupted\n") + f"wrote {junit}\n"), err
    assert not [child for child in result if Path(f"/proc/{child}").exists()]
    (error,) = ET.parse(junit).iter("error")
    assert re.fullmatch(rf"{sent.name} after \d+ of 100000 runs", error.get("message", ""))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(HOLDS, "✓ Passed", id="single run"),
        pytest.param(("--seeds", "3-5"), "Repeat this run: <code>pilothouse simulate", id="the failure"),
        pytest.param((*HOLDS, "--seeds", "3-5"), "All runs passed", id="several runs"),
        pytest.param((*HOLDS, "--vary", "faults.count=0,1"), "count=1", id="variants"),
    ],
)
def test_reports(path: str, tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    page, plot = tmp_path / "report.html", tmp_path / "plot.svg"
    code = main(["simulate", path, *words, "--report", str(page), "--plot", str(plot), *HERE])
    assert code == (1 if words == ("--seeds", "3-5") else 0)
    text = page.read_text(encoding="utf-8")
    assert expected in text
    assert ("--only 1" in text) == (words == ("--seeds", "3-5"))  # the shrunk run is the one that is shown
    ET.fromstring(plot.read_text(encoding="utf-8"))  # our own


def test_written_files_are_named(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name for name in ("r.jsonl", "r.html", "p.svg", "j.xml")]
    words = [word for pair in zip(("--record", "--report", "--plot", "--junit"), files, strict=True) for word in pair]
    assert main(["simulate", path, *HOLDS, *map(str, words), "-o", "json", *HERE]) == 0
    done = capsys.readouterr()
    assert [line for line in done.err.splitlines() if "wrote" in line] == [f"wrote {file}" for file in files]
    json.loads(done.out)
    assert main(["simulate", path, *HOLDS, "--report", os.devnull, *HERE]) == 0
    assert "wrote" not in capsys.readouterr().err


def test_unwritable_report(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", path, *HOLDS, "--report", "/nowhere/r.html", *HERE]) == 2
    assert "/nowhere/r.html: No such file or directory" in capsys.readouterr().err
    assert main(["simulate", path, *HOLDS, "--report", path.rpartition("/")[0], *HERE]) == 2
    done = capsys.readouterr()
    assert ": Is a directory" in done.err
    assert not done.out, "it is refused before the runs"
