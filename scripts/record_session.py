"""Record the terminal sessions of the documentation: ``python -m scripts.record_session [NAME ...]``.

Runs the commands of ``SESSIONS`` for real, each in a new directory, with kubectl from ``KUBEBUILDER_ASSETS``, and
writes an asciicast (v2, for ``asciinema play``) into ``docs/``, and the same as a page beside it, or as an animated
picture in ``docs/images/``. Ports, times, ages, random names and the directory are replaced, so that two
recordings have the same text; a test compares them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time  # noqa: TID251  # what is recorded happens in real time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from scripts.terminal_svg import drawn

ROOT = Path(__file__).resolve().parents[1]
_WIDTH, _HEIGHT = 120, 32
_KEY_SECONDS = 0.03
_READ_SECONDS = 1.5
"""How long the cast waits before a command, for the reader."""
_PATIENCE_SECONDS = 60.0


class Step(NamedTuple):
    """A command, and what the program in the background prints because of it (a regular expression)."""

    command: str
    until: str = ""
    background: bool = False
    remembers: str = ""
    """What of its output later commands may name as ``{}``: the group of this regular expression."""


class Session(NamedTuple):
    """Commands, and where the recording is shown."""

    name: str
    title: str
    steps: tuple[Step, ...]
    cleanup: str = ""
    """A command that is not shown."""
    page: str = ""
    """The text above the recording, if it has a page."""

    @property
    def cast(self) -> Path:
        """The asciicast."""
        return ROOT / f"docs/{self.name}.cast"

    @property
    def file(self) -> Path:
        """Where it is shown: a page, or a picture."""
        return ROOT / (f"docs/{self.name}.md" if self.page else f"docs/images/{self.name}.svg")


_FIRST_MINUTE = (
    Step("pilothouse create cluster"),
    Step("kubectl create deployment web --image=nginx --replicas=3"),
    Step("kubectl wait deployment web --for=condition=Available"),
    Step("kubectl drain node-1", remembers=r"evicting pod default/(\S+)"),
    Step("kubectl get pods"),
    Step("pilothouse why pod/{}"),
)
_OPERATOR = (
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
_OPERATOR_PAGE = """# A session

A new operator, run with `--dev`, used with kubectl, changed, broken and repaired. These commands and their
output are recorded by `python -m scripts.record_session`, and a test compares them with a new recording.
Ports, times and ages are replaced, and the operator's log is left out. The same as an
[asciicast](operator-session.cast): `asciinema play docs/operator-session.cast`.
"""
SESSIONS = (
    Session(
        "first-minute",
        "A cluster, a Deployment, a drained node, and why a pod is gone",
        _FIRST_MINUTE,
        cleanup="pilothouse delete cluster",
    ),
    Session(
        "operator-session",
        "An operator with pilothouse",
        _OPERATOR,
        page=_OPERATOR_PAGE,
    ),
)
_REPLACED = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:6443"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b(?!\.)"), "12:00:00"),
    # The log of the operator: its lines come when they come.
    (re.compile(r"^[IWE]\d{4} [\d:.]+ .*\n", re.MULTILINE), ""),
    (re.compile(r"( deleted) from default namespace$", re.MULTILINE), r"\g<1>"),
    (re.compile(r"( )\d+s$", re.MULTILINE), r"\g<1>5s"),
)
_POD = re.compile(r"\b(web-[0-9a-f]{8,10}-)([bcdfghjklmnpqrstvwxz2-9]{5})\b")
_POD_SUFFIXES = ("rh25q", "dwxqj", "sppcj", "tzt7p")
"""What replaces the random part of names, in the order in which they are seen."""


class Recorder:
    """Runs a session; what was typed and printed, with the seconds at which it was."""

    def __init__(self, session: Session, directory: Path, kubectl: Path) -> None:
        self._session = session
        self._directory = directory
        self._at = directory
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{kubectl.parent}:/usr/bin:/bin",
            "HOME": str(directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ROOT / "src"),
        }
        for name in ("KUBECONFIG", "XDG_STATE_HOME"):
            self._environment.pop(name, None)
        self._remembered = ""
        self._suffixes: dict[str, str] = {}
        self._background: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()
        self._printed = ""
        self._changed = threading.Condition()
        self.events: list[tuple[float, str]] = []
        self._seconds = 0.0

    def record(self) -> None:
        """All of it. Raises ``RuntimeError`` if a command fails or does not have its effect."""
        try:
            for step in self._session.steps:
                self._take(step)
            if self._background:
                self._type("kill %1")
                self._show(self._stop())
        finally:
            self._stop()
            if self._session.cleanup:
                self._run(self._session.cleanup)

    def _take(self, step: Step) -> None:
        command = step.command.replace("{}", self._remembered)
        self._type(command)
        began = time.monotonic()
        if step.background:
            self._start(command.removesuffix("&").split())
        elif command.startswith(("cd ", "export ")):
            self._builtin(command)
        else:
            output = self._run(command)
            self._seconds += time.monotonic() - began
            began = time.monotonic()
            self._show(output)
            self._remember(step, output)
        if step.until:
            self._show(self._wait(step.until))
        self._seconds += time.monotonic() - began

    def _remember(self, step: Step, output: str) -> None:
        if step.remembers:
            found = re.search(step.remembers, output)
            if found is None:
                raise RuntimeError(f"{step.command} did not print {step.remembers!r}:\n{output}")
            self._remembered = found[1]

    @property
    def text(self) -> str:
        """The transcript."""
        return "".join(text for _seconds, text in self.events)

    def _type(self, command: str) -> None:
        self._seconds += _READ_SECONDS
        self.events.append((self._seconds, f"$ {self._replaced(command)}\n"))
        self._seconds += _KEY_SECONDS * len(command)

    def _show(self, text: str) -> None:
        if text := self._replaced(text):
            self.events.append((self._seconds, text))

    def _replaced(self, text: str) -> str:
        for pattern, replacement in _REPLACED:
            text = pattern.sub(replacement, text)
        return _POD.sub(self._pod, text).replace(str(self._directory), "~")

    def _pod(self, name: re.Match[str]) -> str:
        number = min(len(self._suffixes), len(_POD_SUFFIXES) - 1)
        return name[1] + self._suffixes.setdefault(name[2], _POD_SUFFIXES[number])

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


def cast(session: Session, events: Sequence[tuple[float, str]]) -> Iterator[str]:
    """The lines of an asciicast v2; commands are typed key by key."""
    yield json.dumps({"version": 2, "width": _WIDTH, "height": _HEIGHT, "title": session.title})
    for seconds, text in events:
        if text.startswith("$ "):
            for number, key in enumerate(text[2:]):
                shown = f"\x1b[1m$ {key}" if number == 0 else "\x1b[0m\r\n" if key == "\n" else key
                yield json.dumps([round(seconds + number * _KEY_SECONDS, 3), "o", shown])
        else:
            yield json.dumps([round(seconds, 3), "o", text.replace("\n", "\r\n")])


def played(cast: Sequence[str]) -> list[tuple[float, str]]:
    """The events of an asciicast that ``cast`` has made."""
    events = list[tuple[float, str]]()
    typing = False
    for line in cast[1:]:
        seconds, _kind, text = json.loads(line)
        plain = text.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r\n", "\n")
        if typing:
            events[-1] = (events[-1][0], events[-1][1] + plain)
        else:
            events.append((seconds, plain))
        typing = text.startswith("\x1b[1m") or (typing and not text.startswith("\x1b[0m"))
    return events


def shown(session: Session, events: Sequence[tuple[float, str]]) -> str:
    """The recording as its page, or as its picture."""
    if not session.page:
        return drawn(events, session.title)
    return f"{session.page}\n```console\n{''.join(text for _seconds, text in events)}```\n"


def record(session: Session) -> Recorder:
    """Run the session in a new directory. Raises ``RuntimeError`` without kubectl."""
    kubectl = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "kubectl"
    if not kubectl.is_file():
        raise RuntimeError("KUBEBUILDER_ASSETS must name a directory with kubectl")
    with tempfile.TemporaryDirectory(prefix="pilothouse-session-") as directory:
        recorder = Recorder(session, Path(directory).resolve(), kubectl)
        recorder.record()
    return recorder


def main() -> None:
    """Record the sessions that are named, or all, and write their files."""
    for session in SESSIONS:
        if session.name in sys.argv[1:] or not sys.argv[1:]:
            lines = list(cast(session, record(session).events))
            session.cast.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            session.file.write_text(shown(session, played(lines)), encoding="utf-8")
            print(f"{session.cast.relative_to(ROOT)}\n{session.file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
