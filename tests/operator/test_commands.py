"""``pilothouse run`` and ``pilothouse generate``: their files, flags and output."""

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest
import yaml

from pilothouse.cli import main
from pilothouse.operator.endpoints import Endpoints, metrics, probes
from pilothouse.serving import Server

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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "needs the file of an operator first"),
        (["run", "nowhere.py"], "nowhere.py is no file"),
        (["run", "{tmp}/empty.py"], "must have one App, or be named as FILE:NAME; there is none"),
        (["run", "{tmp}/two.py"], "must have one App, or be named as FILE:NAME; there are one, two"),
        (["run", "{tmp}/two.py:three"], "has no App named three; there are one, two"),
        (["run", str(EXAMPLE), "--metrics-bind-address=nine"], "must be HOST:PORT, :PORT or 0"),
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
