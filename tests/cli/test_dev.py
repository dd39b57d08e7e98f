"""``pilothouse run FILE --dev``: a real process, whose files change."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.programs import ROOT, free_port, pilothouse, run_pilothouse

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.cli import dev_process, file_changes
from pilothouse.cli.dev_process import LoadFailed, OperatorProcess
from pilothouse.cli.file_changes import Watched, changed, stamps
from pilothouse.cli.operator_file import failure_text
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.env import Env

OPERATOR = """
from pilothouse.api.core import CONFIG_MAPS
from pilothouse.operator import App, Context, CustomResource, ObjectMeta, View

from words import GREETING


class GreetingSpec(View, frozen=True):
    name: str


class Greeting(View, frozen=True):
    spec: GreetingSpec
    metadata: ObjectMeta = ObjectMeta()


app = App("greeter")
GREETINGS = CustomResource("example.com/v1", Greeting)
print("loading")


@app.controller(GREETINGS, owns=(CONFIG_MAPS,))
async def greet(obj: Greeting, ctx: Context[Greeting]) -> None:
    data = {"text": f"{GREETING} {obj.spec.name}"}
    await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": obj.metadata.name}, "data": data})
"""
ADA = {
    "apiVersion": "example.com/v1",
    "kind": "Greeting",
    "metadata": {"name": "ada"},
    "spec": {"name": "Ada"},
}
GREETINGS = Kind("example.com", "v1", "greetings", "Greeting", True, Object)
MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, Object)


class Session:
    """A folder with an operator, and the program that runs it."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.write("greeter.py", OPERATOR)
        self.write("words.py", 'GREETING = "Hello"\n')
        self.write("ada.json", json.dumps(ADA))
        words = ("run", "greeter.py", "--dev", "--apply", "ada.json", "--nodes=0", *flags)
        self.program = pilothouse(folder, *words)
        self._read = 0

    def write(self, name: str, text: str) -> None:
        """In one step, as editors do."""
        (self.folder / f"{name}.new").write_text(text)
        (self.folder / f"{name}.new").rename(self.folder / name)

    def change(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def until(self, pattern: str) -> str:
        """Wait for output after the previous match."""
        result = self.program.until(rf"(?s)\A.{{{self._read},}}?(?:{pattern})")
        new, self._read = result[self._read :], len(result)
        return new

    def children(self) -> list[int]:
        """The processes that the program has."""
        pid = self.program.process.pid
        return [int(part) for part in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def text_of(client: Client) -> str:
    """What the operator has written."""
    raw = await client.get(MAPS.raw, "ada", "default")
    return str(msgspec.json.decode(raw)["data"]["text"])


async def until_text(client: Client, expected: str) -> None:
    async with asyncio.timeout(60):
        while await text_of(client) != expected:  # noqa: ASYNC110  # nothing to wait for
            await asyncio.sleep(0.05)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """With the operator running."""
    result = Session(tmp_path)
    with result.program:
        result.until("greetings.example.com/ada in default created\n")
        yield result


@pytest.fixture
async def client(session: Session, env: Env) -> AsyncIterator[Client]:
    """Of the plane, once the operator has synced its object."""
    result = Client(connect(env, kubeconfig=str(session.folder / ".pilothouse/kubeconfig")), env)
    try:
        async with asyncio.timeout(60):
            while "ada" not in [item.metadata.name for item in (await result.list(MAPS, "default")).items]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield result
    finally:
        await result.close()


def test_output_at_start_and_end(tmp_path: Path) -> None:
    session = Session(tmp_path)
    with session.program as program:
        text = session.until("greetings.example.com/ada in default created\n")
        assert re.search(
            r"pilothouse is ready: API server https://127.0.0.1:\d+, 0 nodes, .* in memory\n"
            r"  kubectl --kubeconfig \.pilothouse/kubeconfig get nodes\n"
            r"(?s:.*)customresourcedefinitions.apiextensions.k8s.io/greetings.example.com created\n"
            r"(?:I.*\n)*greeter started with the code of \d\d:\d\d:\d\d\n"
            rf"It restarts when a file in {tmp_path} changes; Ctrl-C stops everything. In a second terminal:\n"
            r"  kubectl --kubeconfig .pilothouse/kubeconfig get greetings --all-namespaces\n",
            text,
        ), text
        assert text.count("loading\n") == 1
        (child,) = session.children()
        program.send(signal.SIGINT)
        assert program.wait() == 0
        assert not Path(f"/proc/{child}").exists()
        assert not (tmp_path / ".pilothouse/kubeconfig").exists()
        assert "Traceback" not in program.log


@pytest.mark.slow
@pytest.mark.real_loop(timeout=200)
async def test_changed_code_replaces_the_operator_and_keeps_objects(session: Session, client: Client) -> None:
    await until_text(client, "Hello Ada")
    before, children = await client.get(GREETINGS, "ada", "default"), session.children()
    session.change("words.py", "Hello", "Welcome")
    session.until("words.py changed\n.*greeter restarted with the code of")
    await until_text(client, "Welcome Ada")
    assert (await client.get(GREETINGS, "ada", "default")).metadata.uid == before.metadata.uid
    assert len(session.children()) == 1
    assert session.children() != children

    # A changed definition is applied, and then a manifest that was rejected before; the same ones are not mentioned.
    session.change("ada.json", '"Ada"', '"Ada", "title": "Lady"')
    session.until('Error: ada.json, document 1: Greeting ada: .*unknown field "spec.title"')
    session.change("greeter.py", "name: str", 'name: str\n    title: str = ""')
    session.until(
        "customresourcedefinitions.apiextensions.k8s.io/greetings.example.com configured\n.*greeter restarted"
    )
    session.until("greetings.example.com/ada in default configured\n")
    patch = merge_patch({"spec": {"title": "Countess"}})
    raw = await client.patch(GREETINGS.raw, "ada", patch, "default", field_validation="Strict")
    assert msgspec.json.decode(raw)["spec"] == {"name": "Ada", "title": "Countess"}
    session.change("words.py", "Welcome", "Hello")
    assert "configured" not in session.until("greeter restarted")

    # So is a changed manifest.
    session.change("ada.json", '"Ada"', '"Ada Lovelace"')
    session.until("greetings.example.com/ada in default configured")
    await until_text(client, "Hello Ada Lovelace")


@pytest.mark.slow
@pytest.mark.real_loop(timeout=200)
async def test_invalid_code_keeps_the_running_operator(session: Session, client: Client) -> None:
    await until_text(client, "Hello Ada")
    children = session.children()
    session.change("words.py", "GREETING =", "GREETING = (")
    text = session.until("stays in use until a file changes\n")
    assert f"Error: {session.folder}/words.py, line 1: SyntaxError: '(' was never closed\n" in text
    assert "operator_file" not in text, "frames that are not the author's"

    session.write("words.py", 'import json\n\nGREETING = json.loads("{")\n')
    text = session.until("stays in use until a file changes\n")
    assert f"Error: {session.folder}/words.py, line 3: json.decoder.JSONDecodeError: Expecting property name" in text

    session.write("words.py", 'GREETING = "Hello"\n')
    session.change("greeter.py", '"example.com/v1"', '"example.k8s.io/v1"')
    text = session.until("stays in use until a file changes\n")
    assert "the API server does not admit the CustomResourceDefinitions: " in text
    assert "api-approved.kubernetes.io" in text

    assert session.children() == children
    await client.patch(GREETINGS, "ada", merge_patch({"spec": {"name": "Grace"}}), "default")
    await until_text(client, "Hello Grace")

    session.change("greeter.py", '"example.k8s.io/v1"', '"example.com/v1"')
    session.until("greeter restarted")
    await client.patch(GREETINGS, "ada", merge_patch({"spec": {"name": "Ada"}}), "default")
    await until_text(client, "Hello Ada")


@pytest.mark.slow
@pytest.mark.real_loop(timeout=200)
async def test_a_breakpoint_is_an_error(session: Session) -> None:
    session.change("greeter.py", "    data = {", "    breakpoint()\n    data = {")
    session.until(r"RuntimeError: breakpoint\(\) has no terminal under --dev: use it in a test, or in `pilothouse run`")


@pytest.mark.slow
@pytest.mark.real_loop(timeout=200)
async def test_code_that_blocks_the_loop_is_a_warning(session: Session) -> None:
    session.change("greeter.py", "    data = {", "    import time; time.sleep(2)\n    data = {")
    session.until('The event loop is blocked: .* at="greeter.py:\\d+" function="greet" code="import time; time.sleep')


@pytest.mark.slow
@pytest.mark.real_loop(timeout=200)
async def test_exited_operator_is_reported_and_restarted(session: Session, client: Client) -> None:
    (child,) = session.children()
    os.kill(child, signal.SIGKILL)
    session.until("greeter ended with code -9; it starts again when a file changes\n")
    session.change("words.py", "Hello", "Welcome")
    session.until("greeter restarted")
    await until_text(client, "Welcome Ada")


@pytest.mark.slow
def test_invalid_file_at_the_start_is_retried(tmp_path: Path) -> None:
    session = Session(tmp_path, "--kube-api-qps=0")
    session.write("words.py", "raise SystemExit(3)\n")
    with session.program:
        text = session.until("the operator cannot be loaded; waiting until a file changes\n")
        assert f"Error: {tmp_path}/words.py, line 1: SystemExit: 3\n" in text
        session.write("words.py", 'GREETING = "Hello"\n')
        session.until("greeter started.*greetings.example.com/ada in default created\n")


@pytest.mark.slow
@pytest.mark.real_loop(timeout=200)
async def test_external_api_server(session: Session, client: Client) -> None:
    session.change("ada.json", '"ada"', '"eve"')
    session.until("greetings.example.com/eve in default created\n")
    kubeconfig = session.folder / ".pilothouse/kubeconfig"
    (session.folder / "more").mkdir()
    other = Session(session.folder / "more", f"--kubeconfig={kubeconfig}", "--metrics-bind-address=127.0.0.1:0")
    with other.program as program:
        text = other.until("greetings.example.com/ada in default unchanged\n")
        assert "pilothouse is ready" not in text
        assert f"  kubectl --kubeconfig {kubeconfig} get greetings --all-namespaces\n" in text
        assert program.stop() == 0
    assert session.program.code is None


@pytest.mark.slow
def test_webhooks_are_served_before_manifests_are_applied(tmp_path: Path) -> None:
    """And by the next process as well."""
    (tmp_path / "backup_operator.py").write_text((ROOT / "examples/backup_operator.py").read_text("utf-8"))
    manifest = {
        "apiVersion": "example.com/v1",
        "kind": "Backup",
        "metadata": {"name": "one"},
        "spec": {"schedule": "0 3 * *"},
    }
    (tmp_path / "one.json").write_text(json.dumps(manifest))
    flags = ["--dev", "--apply=one.json", "--nodes=0", f"--webhook-port={free_port()}"]
    with pilothouse(tmp_path, "run", "backup_operator.py", *flags) as program:
        program.until(
            'Error: one.json, document 1: Backup one: admission webhook "[^"]*" denied the request: the schedule is'
        )
        text = (tmp_path / "backup_operator.py").read_text()
        (tmp_path / "backup_operator.py").write_text(text.replace("the schedule is wrong", "five fields are needed"))
        program.until("backup-operator restarted")
        (tmp_path / "one.json").write_text(json.dumps(manifest) + "\n")
        program.until("denied the request: five fields are needed")
        manifest["spec"] = {"schedule": "0 3 * * *"}
        (tmp_path / "one.json").write_text(json.dumps(manifest))
        program.until("Warning: use example.com/v2\nbackups.example.com/one in default created")


@pytest.mark.slow
def test_operator_ends_when_the_session_is_killed(tmp_path: Path) -> None:
    session = Session(tmp_path)
    with session.program as program:
        session.until("greeter started")
        (child,) = session.children()
        program.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and "State:\tZ" not in Path(f"/proc/{child}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--apply=x.yaml"], "--apply needs --dev"),
        (["--nodes=1"], "--nodes needs --dev"),
        (["--data-dir=x"], "--data-dir needs --dev"),
        (["--ui"], "--ui needs --dev"),
        (["--dev", "--apply=nowhere.yaml"], "unable to read manifest nowhere.yaml"),
        (["--dev", "--metrics-bind-address=:8o"], '--metrics-bind-address must be HOST:PORT, :PORT or 0, got ":8o"'),
    ],
)
def test_wrong_flags(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "greeter.py").write_text(OPERATOR)
    done = run_pilothouse(tmp_path, "run", "greeter.py", *words)
    assert done.returncode != 0
    assert message in done.stderr


def test_the_page_of_the_control_plane(tmp_path: Path) -> None:
    session = Session(tmp_path, "--ui")
    with session.program as program:
        text = session.until("greetings.example.com/ada in default created\n")
        assert re.search(r"\n  https://127\.0\.0\.1:\d+/ui/#token=\S+    # opens the page", text), text
        program.send(signal.SIGINT)
        assert program.wait() == 0


def test_missing_file(tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "run", "nowhere.py", "--dev")
    assert (done.returncode, "nowhere.py: no such file" in done.stderr) == (2, True)
    done = run_pilothouse(tmp_path, "run", ".", "--dev")
    assert (done.returncode, "got .: a directory" in done.stderr) == (2, True)


# Parts


@pytest.mark.real_loop(timeout=60)
async def test_load_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.setattr(dev_process, "_LOAD_SECONDS", 0.2)
    with pytest.raises(LoadFailed, match="was not loaded within 0 s"):
        await OperatorProcess.load([str(tmp_path / "slow.py")])


def test_changes_of_files(tmp_path: Path) -> None:
    left_out = ("tests/d.py", ".hidden/e.py", "env/f.py", "env/pyvenv.cfg", "test_a.py", "a_test.py", "conftest.py")
    for name in ("a.py", "b.txt", "package/c.py", *left_out):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    watched = [Watched(tmp_path / "a.py"), Watched(tmp_path, (".py",), recursive=True)]
    before = stamps(watched)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in before) == ["a.py", "package/c.py"]
    assert list(stamps([Watched(tmp_path, (".txt",))])) == [tmp_path / "b.txt"]
    assert list(stamps([Watched(tmp_path / "test_a.py")])) == [tmp_path / "test_a.py"], "an operator of that name"
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "package/c.py").unlink()
    (tmp_path / "new.py").write_text("")
    (tmp_path / "b.txt").write_text("1")
    after = stamps(watched)
    assert changed(before, after) == [tmp_path / "a.py", tmp_path / "new.py", tmp_path / "package/c.py"]
    assert changed(after, stamps(watched)) == []


def test_the_number_of_watched_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (tmp_path / f"{number}.py").write_text("")
    monkeypatch.setattr(file_changes, "MAX_FILES", 3)
    result = stamps([Watched(tmp_path / "4.py"), Watched(tmp_path, (".py",), recursive=True)])
    assert sorted(path.name for path in result) == ["0.py", "1.py", "4.py"]
    monkeypatch.setattr(file_changes, "_MAX_ENTRIES", 1)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/5.py").write_text("")
    assert tmp_path / "deep/5.py" not in stamps([Watched(tmp_path, (".py",), recursive=True)])


def test_full_traceback_without_a_frame_of_the_operator(tmp_path: Path) -> None:
    try:
        json.loads("{")
    except ValueError as error:
        text = failure_text(error, tmp_path)
    assert text.startswith("json.decoder.JSONDecodeError: ")
    assert "json/decoder.py" in text


@pytest.mark.parametrize(
    ("line", "closest"),
    [
        ("from pilothouse.api.batch import CRONJOBS", "CRON_JOBS"),
        ("from pilothouse.api.core import CONFIG_MAP", "CONFIG_MAPS"),
        ("from pilothouse.api.core import SOMETHING_ELSE", ""),
        ("from pilothouse.api.nowhere import CRON_JOBS", ""),
    ],
)
def test_a_wrong_name_in_an_import_comes_with_the_closest_one(tmp_path: Path, line: str, closest: str) -> None:
    path = tmp_path / "greeter.py"
    path.write_text(line)
    with pytest.raises(ImportError) as raised:
        exec(compile(line, str(path), "exec"), {})
    first = failure_text(raised.value, tmp_path).splitlines()[0]
    # Since Python 3.12 the suggestion is Python's own.
    suggested = re.search(r"[dD]id you mean:? '?(\w+)", first)
    assert (suggested[1] if suggested else "") == closest, first
