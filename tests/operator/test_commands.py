"""``pilothouse run`` and ``pilothouse generate``: their files, flags and output."""

import asyncio
import operator
import re
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.cli import main, run
from pilothouse.cli.program import UserError
from pilothouse.client import Client
from pilothouse.client.interceptor import Rule, conflict
from pilothouse.env import Env
from pilothouse.operator import App, CustomResource
from pilothouse.operator.endpoints import Endpoints, metrics, probes
from pilothouse.serving import Server
from pilothouse.testing import async_plane
from pilothouse.testing.running import ProgramUnderTest


class Thing(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


EXAMPLE = Path(__file__).parents[2] / "examples" / "website_operator.py"


def test_the_manifests_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "manifests", str(EXAMPLE), "-n", "sites", "--image", "example.com/sites:1"]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["kind"] for each in objects] == [
        "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
        "Deployment",
    ]  # fmt: skip
    namespaced = [each for each in objects if each["kind"] in ("ServiceAccount", "Role", "RoleBinding", "Deployment")]
    assert {each["metadata"]["namespace"] for each in namespaced} == {"sites"}
    rules = {
        (rule["apiGroups"][0], resource): rule["verbs"]
        for rule in objects[2]["rules"]
        for resource in rule["resources"]
    }
    assert rules == {
        ("", "configmaps"): ["create", "delete", "get", "list", "patch", "watch"],
        ("", "services"): ["create", "delete", "get", "list", "patch", "watch"],
        ("", "events"): ["create", "patch"],
        ("apps", "deployments"): ["create", "delete", "get", "list", "patch", "watch"],
        ("example.com", "websites"): ["get", "list", "patch", "watch"],
        ("example.com", "websites/status"): ["patch"],
        ("example.com", "websites/finalizers"): ["update"],
    }
    (container,) = objects[-1]["spec"]["template"]["spec"]["containers"]
    assert "--leader-elect-namespace=sites" in container["args"]


def test_manifests_have_no_aliases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "manifests", str(EXAMPLE), "--image", "example.com/sites:1"]) == 0
    assert "&id" not in capsys.readouterr().out


def test_a_file_may_be_named_after_a_module_of_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "operator.py").write_text("from pilothouse.operator import App\napp = App('one')\n")
    assert main(["generate", "manifests", str(tmp_path / "operator.py")]) == 0
    assert sys.modules["operator"] is operator


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [(["--install"], 1, "the object has been modified"), ([], 2, "app one has no controllers and no webhooks")],
)
async def test_an_operator_that_cannot_run_says_why(
    env: Env, monkeypatch: pytest.MonkeyPatch, flags: list[str], code: int, message: str
) -> None:
    app = App("one")
    app.controller(CustomResource("example.com/v1", Thing))
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:

        @asynccontextmanager
        async def connected(*_arguments: object) -> AsyncIterator[Client]:
            faults = [Rule(conflict(), verb="patch")]
            yield ProgramUnderTest(env, cluster.plane.server, app, faults=faults).client()

        monkeypatch.setattr(run, "connected", connected)
        off = ["--metrics-bind-address=0", "--health-probe-bind-address=0"]
        with pytest.raises(UserError, match=message) as raised:
            await run.run_app(app, run.flag_set("run").parse([*off, *flags]))
        assert raised.value.code == code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "needs the file of an operator"),
        (["run", "--install", "nowhere.py"], "expected the Python file of an operator, got nowhere.py: no such file"),
        (["run", "a.py", "b.py"], '"pilothouse run" does not take any more arguments, got ["b.py"]'),
        (["run", "nowhere.py"], "expected the Python file of an operator, got nowhere.py: no such file"),
        (["run", "{tmp}/empty.py"], "must have one App, or be named as FILE:NAME; there is none"),
        (["run", "{tmp}/two.py"], "must have one App, or be named as FILE:NAME; there are one, two"),
        (["run", "{tmp}/two.py:three"], "has no App named three; there are one, two"),
        (["run", str(EXAMPLE), "--metrics-bind-address=nine"], "must be HOST:PORT, :PORT or 0"),
        (
            ["generate", "-n", "sites", "manifests", "nowhere.py"],
            "expected the Python file of an operator, got nowhere.py: no such file",
        ),
        (["generate", "manifests"], 'expected "pilothouse generate manifests FILE"'),
        (["generate", "models", "x"], 'expected "pilothouse generate manifests FILE"'),
    ],
)
def test_what_cannot_be_run_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], message: str
) -> None:
    app = "from pilothouse.operator import App\n"
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "two.py").write_text(f"{app}one = App('one')\ntwo = App('two')\n")
    assert main([word.format(tmp=tmp_path) for word in words]) == 2
    assert re.search(re.escape(message), capsys.readouterr().err)


@pytest.mark.real_loop(timeout=20)
async def test_metrics_and_probes_are_served() -> None:
    ready = False
    server = Server(Endpoints({**metrics(lambda: "a_total 1\n"), **probes(lambda: ready)}))
    await server.start()
    try:

        def get(path: str, method: str = "GET") -> tuple[int, str]:
            request = urllib.request.Request(f"{server.url}{path}", method=method)
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        assert await asyncio.to_thread(get, "/metrics") == (200, "a_total 1\n")
        assert await asyncio.to_thread(get, "/healthz") == (200, "ok")
        assert await asyncio.to_thread(get, "/readyz") == (500, "not ready")
        ready = True
        assert await asyncio.to_thread(get, "/readyz") == (200, "ok")
        assert await asyncio.to_thread(get, "/metrics", "HEAD") == (200, "")
        assert (await asyncio.to_thread(get, "/metrics", "POST"))[0] == 405
        assert (await asyncio.to_thread(get, "/other"))[0] == 404
    finally:
        await server.stop()
