"""A browser and a plane with some workloads, shared by the tests of one worker."""

import contextlib
import json
import re
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.programs import Program, pilothouse, run_pilothouse
from tests.ui.browser import Browser, Tab, axe_script, chromium

MARKUP = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
_SPEC = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "nginx:1"}]}


def _workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": _SPEC}
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "annotations": {"example.com/note": MARKUP}},
        "spec": {"selector": selector, "template": template, **spec},
    }


def _object(kind: str, name: str, api_version: str = "v1", **parts: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **parts}


MANIFESTS: list[dict[str, Any]] = [
    _workload("Deployment", "web", replicas=3),
    _workload("StatefulSet", "db", replicas=2, serviceName="db"),
    _workload("DaemonSet", "agent"),
    _object("Job", "once", "batch/v1", spec={"template": {"spec": {**_SPEC, "restartPolicy": "Never"}}}),
    _object(
        "CronJob",
        "tick",
        "batch/v1",
        spec={
            "schedule": "0 0 1 1 *",
            "jobTemplate": {"spec": {"template": {"spec": {**_SPEC, "restartPolicy": "Never"}}}},
        },
    ),
    _object(
        "Pod", "huge", spec={"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "500"}}}]}
    ),
    _object("Secret", "login", stringData={"password": "correct horse"}),
    _object("ConfigMap", "settings", data={"page": MARKUP, "lines": "one\ntwo\n"}),
    _object(
        "Event",
        "markup.1",
        involvedObject={"kind": "ConfigMap", "namespace": "default", "name": "settings"},
        reason="Markup",
        message=MARKUP,
        type="Warning",
        lastTimestamp="2026-01-01T00:00:00Z",
    ),
]


class Cluster:
    """``pilothouse up --ui`` with the manifests applied."""

    def __init__(self, directory: Path, program: Program) -> None:
        self._directory = directory
        self.link = program.until(r"https://\S+/ui/#token=\S+")
        self.page = self.link.partition("#")[0]
        self.server = self.page.removesuffix("/ui/")
        for line in ("web in default: 3 of 3", "db in default: 2 of 2"):
            program.until(line)
        kubeconfig = yaml.safe_load((directory / ".pilothouse/kubeconfig").read_text())
        self._token = kubeconfig["users"][0]["user"]["token"]
        self._context = ssl._create_unverified_context()

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the administrator."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/merge-patch+json"}
        if method == "POST":
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=self._context, timeout=20) as response:
            return json.loads(response.read() or b"null")

    def new_link(self) -> str:
        """A link for another login."""
        done = run_pilothouse(self._directory, "ui", "--kubeconfig=.pilothouse/kubeconfig")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{self.page}#token=")
        return done.stdout.strip()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, if it is installed."""
    if not chromium():
        pytest.skip("there is no chromium: apt-get install chromium")
    with Browser() as browser_process:
        yield browser_process


@pytest.fixture(scope="session")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The plane, and a browser that has logged in."""
    directory = tmp_path_factory.mktemp("up")
    (directory / "all.yaml").write_text("---\n".join(json.dumps(manifest) + "\n" for manifest in MANIFESTS))
    with pilothouse(directory, "up", "--ui", "--port=0", "-f", "all.yaml") as program:
        result = Cluster(directory, program)
        tab = browser.open()
        tab.go(result.link)
        tab.find(".node", "node-0")
        tab.close()
        yield result


@pytest.fixture
def tab(browser: Browser, cluster: Cluster) -> Iterator[Tab]:
    """A separate tab. The page must not have errors, nor send requests to another server."""
    result = browser.open()
    result.size(1280, 800)
    yield result
    errors, elsewhere = result.errors, [url for url in result.requested if not url.startswith(f"{cluster.server}/ui/")]
    pwned = result.run("window.pwned")
    with contextlib.suppress(AssertionError):
        result.call("Page.close")
    result.close()
    assert (errors, elsewhere, pwned) == ([], [], None)


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    source = axe_script()
    if not source:
        pytest.skip("axe-core is not installed: npm install --prefix .browser axe-core")
    return source


def show(tab: Tab, cluster: Cluster, path: str, title: str) -> None:
    """Open a view, and wait until it has the data."""
    tab.go(f"{cluster.page}#/{path}")
    tab.wait("window.pilothouse && pilothouse.live.complete")
    tab.find("h1", title)


def wait_past(tab: Tab, seconds: float) -> None:
    """Wait until the history is longer than this many seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if tab.run("Date.now() / 1000 - pilothouse.marks[0][0]") > seconds:
            return
        time.sleep(0.2)
    raise AssertionError("the history does not grow")


def revision_of(text: str) -> str:
    """The resourceVersion that a text names."""
    match = re.search(r"resourceVersion (\d+)", text)
    assert match is not None, text
    return match[1]
