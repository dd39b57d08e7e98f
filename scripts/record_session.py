"""Record the terminal session of docs/operator-session.md: ``python scripts/record_session.py``.

Runs the commands of ``SESSION`` for real, in a new directory, with kubectl from ``KUBEBUILDER_ASSETS``, and writes
``docs/operator-session.md`` and ``docs/operator-session.cast`` (asciicast v2, for ``asciinema play``). Ports, times,
ages and the directory are replaced, so that two recordings have the same text; a test compares them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time  # noqa: TID251  # what is recorded happens in real time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/operator-session.md"
CAST = ROOT / "docs/operator-session.cast"
_WIDTH, _HEIGHT = 120, 32
_KEY_SECONDS = 0.03
_READ_SECONDS = 1.5
"""How long the cast waits before a command, for the reader."""
_PATIENCE_SECONDS = 60.0


class Step(NamedTuple):
    """A command, and what ``run --dev``, in the background, prints because of it (a regular expression)."""

    command: str
    until: str = ""
    background: bool = False


SESSION = (
    Step("pilothouse new operator website"),
    Step("cd website"),
    Step(
        "pilothouse run website_operator.py --dev --apply examples/ &",
        r"websites\.example\.com/example in default created\n",
        background=True,
    ),
    Step("export KUBECONFIG=$PWD/.pilothouse/kubeconfig"),
    Step("kubectl wait website/example --for=condition=Ready"),
    Step("kubectl get websites,deployments"),
    Step('kubectl patch website example --type=merge -p \'{"spec":{"replicas":3}}\''),
    Step("kubectl wait website/example --for=jsonpath='{.status.readyReplicas}'=3"),
    Step(
        "sed -i 's/replicas are ready\"/pods serve the site\"/' website_operator.py",
        r"restarted with the code of \S+\n",
    ),
    Step("kubectl wait website/example --for=jsonpath='{.status.conditions[0].message}'='3 of 3 pods serve the site'"),
    Step("echo 'broken =' >> website_operator.py", r"stays in use until a file changes\n"),
    Step("sed -i '$d' website_operator.py", r"restarted with the code of \S+\n"),
    Step("kubectl delete website example"),
)
_REPLACED = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:6443"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b(?!\.)"), "12:00:00"),
    # The log of the operator: its lines come when they come.
    (re.compile(r"^[IWE]\d{4} [\d:.]+ .*\n", re.MULTILINE), ""),
    (re.compile(r"( deleted) from default namespace$", re.MULTILINE), r"\g<1>"),
    (re.compile(r"( )\d+s$", re.MULTILINE), r"\g<1>5s"),
)


class Recorder:
    """Runs the session; what was typed and printed, with the seconds at which it was."""

    def __init__(self, directory: Path, kubectl: Path) -> None:
        self._directory = directory
        self._at = directory
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{kubectl.parent}:/usr/bin:/bin",
            "HOME": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT / "src"),
        }
        self._background: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()
        self._printed = ""
        self._changed = threading.Condition()
        self.events: list[tuple[float, str]] = []
        self._seconds = 0.0

    def record(self) -> None:
        """All of ``SESSION``. Raises ``RuntimeError`` if a command fails or does not have its effect."""
        try:
            for step in SESSION:
                self._type(step.command)
                began = time.monotonic()
                if step.background:
                    self._start(step.command.removesuffix("&").split())
                elif step.command.startswith(("cd ", "export ")):
                    self._builtin(step.command)
                else:
                    self._show(self._run(step.command))
                if step.until:
                    self._show(self._wait(step.until))
                self._seconds += time.monotonic() - began
            self._type("kill %1")
            self._show(self._stop())
        finally:
            self._stop()

    @property
    def text(self) -> str:
        """The transcript."""
        return "".join(text for _seconds, text in self.events)

    def _type(self, command: str) -> None:
        self._seconds += _READ_SECONDS
        self.events.append((self._seconds, f"$ {command}\n"))
        self._seconds += _KEY_SECONDS * len(command)

    def _show(self, text: str) -> None:
        for pattern, replacement in _REPLACED:
            text = pattern.sub(replacement, text)
        text = text.replace(str(self._directory), "~")
        if text:
            self.events.append((self._seconds, text))

    def _builtin(self, command: str) -> None:
        name, _space, value = command.partition(" ")
        if name == "cd":
            self._at = self._at / value
        else:
            variable, _equals, text = value.partition("=")
            self._environment[variable] = text.replace("$PWD", str(self._at))

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._at,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}")
        return done.stdout

    def _start(self, words: list[str]) -> None:
        self._background = subprocess.Popen(
            words, cwd=self._at, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, args=(self._background,), daemon=True)
        self._reader.start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._printed += line
                    self._changed.notify_all()

    def _wait(self, pattern: str) -> str:
        """What the program in the background prints until then."""
        found = re.compile(pattern, re.DOTALL)
        with self._changed:
            if not self._changed.wait_for(lambda: found.search(self._printed), _PATIENCE_SECONDS):
                raise RuntimeError(f"{pattern!r} was not printed:\n{self._printed}")
            text, self._printed = self._printed, ""
        return text

    def _stop(self) -> str:
        if self._background is None:
            return ""
        self._background.terminate()
        code = self._background.wait(_PATIENCE_SECONDS)
        self._background = None
        self._reader.join()
        if code:
            raise RuntimeError(f"the session ended with code {code}")
        return self._printed


def cast(recorder: Recorder) -> Iterator[str]:
    """The lines of an asciicast v2; commands are typed key by key."""
    yield json.dumps({"version": 2, "width": _WIDTH, "height": _HEIGHT, "title": "An operator with pilothouse"})
    for seconds, text in recorder.events:
        if text.startswith("$ "):
            for number, key in enumerate(text[2:]):
                shown = f"\x1b[1m$ {key}" if number == 0 else "\x1b[0m\r\n" if key == "\n" else key
                yield json.dumps([round(seconds + number * _KEY_SECONDS, 3), "o", shown])
        else:
            yield json.dumps([round(seconds, 3), "o", text.replace("\n", "\r\n")])


def page(recorder: Recorder) -> str:
    """The transcript as a page."""
    return (
        "# A session\n\n"
        "A new operator, run with `--dev`, used with kubectl, changed, broken and repaired. These commands and their\n"
        "output are recorded by `python scripts/record_session.py`, and a test compares them with a new recording.\n"
        "Ports, times and ages are replaced, and the operator's log is left out. The same as an\n"
        "[asciicast](operator-session.cast): `asciinema play docs/operator-session.cast`.\n\n"
        f"```console\n{recorder.text}```\n"
    )


def record() -> Recorder:
    """Run the session in a new directory. Raises ``RuntimeError`` without kubectl."""
    kubectl = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kubectl"
    if not kubectl.is_file():
        raise RuntimeError("KUBEBUILDER_ASSETS must name a directory with kubectl")
    with tempfile.TemporaryDirectory(prefix="pilothouse-session-") as directory:
        recorder = Recorder(Path(directory).resolve(), kubectl)
        recorder.record()
    return recorder


def main() -> None:
    """Record, and write both files."""
    recorder = record()
    PAGE.write_text(page(recorder), encoding="utf-8")
    CAST.write_text("".join(f"{line}\n" for line in cast(recorder)), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}\n{CAST.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
