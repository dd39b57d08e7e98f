"""The plugin as pytest sees it: loaded by name, cheap to load, and the examples of docs/testing.md verbatim."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import cases

_ROOT = Path(__file__).parents[2]
_EXAMPLES = dict(
    re.findall(r"<!-- tested: (\w+) -->\n```python\n(.*?)```", (_ROOT / "docs/testing.md").read_text(), re.DOTALL)
)


def _python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PATH": "", "PYTHONPATH": str(_ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# Installed or not: by its name as an entry point it is blocked, and then named as a module.
_PLUGIN = ("-p", "no:pilothouse", "-p", "pilothouse.testing.plugin", "-p", "no:cacheprovider")


def _pytest(directory: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_example.py").write_text(source)
    return _python("-m", "pytest", "-q", *_PLUGIN, "--strict-markers", "-W", "error", *arguments, cwd=directory)


def test_the_synchronous_example_of_the_guide_passes(tmp_path: Path) -> None:
    done = _pytest(tmp_path, _EXAMPLES["synchronous"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_example_with_a_controller_of_ones_own_passes(tmp_path: Path) -> None:
    done = _pytest(tmp_path, _EXAMPLES["own"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


@pytest.mark.parametrize("name", ["operator", "rights"])
def test_the_examples_with_an_operator_pass(name: str, tmp_path: Path) -> None:
    (tmp_path / "website_operator.py").write_text((_ROOT / "examples/website_operator.py").read_text())
    done = _pytest(tmp_path, _EXAMPLES[name])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


_MISTAKES = """
from pathlib import Path
import pytest
from website_operator import WEBSITES, app
from pilothouse.testing import explore, plane

async def scenario(cluster):
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})

async def twice(cluster):
    await scenario(cluster)
    await scenario(cluster)

def never(state):
    assert not state.list("v1", "Namespace"), "a namespace"

@pytest.mark.parametrize("name", ["a b"])
def test_invariant(name):
    explore(app, scenario, [never], seeds=1, nodes=0, crds=WEBSITES)

def test_scenario():
    explore(app, twice, seeds=1, faults=0, nodes=0)

def test_arguments():
    with plane(nodes=0, crds="nope.yaml"):
        pass

def test_kind():
    with plane(nodes=0, controllers=(), serve=False) as cluster:
        cluster.get("v1", "Pdo", "a")
"""


def test_failures_stand_alone_and_are_reproduced_from_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    folder = tmp_path / "sub"
    folder.mkdir()
    (folder / "website_operator.py").write_text((_ROOT / "examples/website_operator.py").read_text())
    done = _pytest(folder, _MISTAKES)
    assert "4 failed" in done.stdout, done.stdout + done.stderr
    assert "reproduce: PILOTHOUSE_SEEDS=0:none pytest 'test_example.py::test_invariant[a b]'\n" in done.stdout
    frames = re.findall(r"^(\S+\.pyx?):\d+: ", done.stdout, re.M)
    assert frames
    assert set(frames) == {"test_example.py"}


_PROGRAMS = (
    "context",
    "decorator",
    "advance",
    "asynchronous",
    "lag",
    "compact",
    "virtual",
    "simulation",
    "explore",
    "strategies",
)


def test_the_other_examples_run(tmp_path: Path) -> None:
    """In sequence in one process: each is a separate program, but none needs a process."""
    (tmp_path / "website_operator.py").write_text((_ROOT / "examples/website_operator.py").read_text())
    for name in _PROGRAMS:
        (tmp_path / f"{name}_example.py").write_text(_EXAMPLES[name])
    files = [f"{name}_example.py" for name in _PROGRAMS]
    program = f"import runpy\nfor file in {files}: runpy.run_path(file, run_name='__main__')"
    done = _python("-W", "error", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    (tmp_path / "replicaset.yaml").write_text((_ROOT / "examples/replicaset.yaml").read_text())
    match = re.search(r"<!-- tested: readme -->\n```python\n(.*?)```", (_ROOT / "README.md").read_text(), re.DOTALL)
    assert match is not None
    done = _pytest(tmp_path, match[1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


_SUITE = """
import os
import pytest
from kubernetes import client, config
from kubernetes.stream import stream

@pytest.mark.parametrize("context", [None, "pilothouse"])
def test_it(context):
    config.load_kube_config(context=context)
    api = client.CoreV1Api()
    assert "default" in [namespace.metadata.name for namespace in api.list_namespace().items]

def test_programs():
    config.load_kube_config(os.environ["KUBECONFIG"])
    assert client.CoreV1Api().list_node().items

def test_exec():
    config.load_kube_config()
    api = client.CoreV1Api()
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}], "nodeName": "node-0"}}
    api.create_namespaced_pod("default", pod)
    with pytest.raises(client.ApiException, match="501 Not Implemented"):
        stream(api.connect_get_namespaced_pod_exec, "a", "default", command=["ls"], stdout=True)
"""


def test_the_example_with_a_suite_that_exists_passes(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    (tmp_path / "conftest.py").write_text(_EXAMPLES["existing"])
    done = _pytest(tmp_path, _SUITE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  names: {kind: Shop, plural: shops, singular: shop}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
_KOPF_OPERATOR = """
import kopf
from kubernetes import client

@kopf.on.create("example.com", "v1", "shops")
def create(body, namespace, **_):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    kopf.adopt(deployment)
    client.AppsV1Api().create_namespaced_deployment(namespace, deployment)
"""
_KOPF_SUITE = """
import pytest

@pytest.mark.parametrize("time", [1, 2])
def test_a_shop_has_a_deployment(pilothouse, time):
    pilothouse.create({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "tea"}})
    pilothouse.wait_for("apps/v1", "Deployment", "web", lambda web: web and web["status"].get("readyReplicas") == 1)
    pilothouse.delete("example.com/v1", "Shop", "tea")
    pilothouse.wait_for("apps/v1", "Deployment", "web", lambda web: web is None)

def test_a_shop_fails(pilothouse):
    pilothouse.create({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "tea"}})
    pilothouse.wait_for("apps/v1", "Deployment", "web", lambda web: web and web["status"].get("readyReplicas") == 1)
    raise AssertionError
"""


def test_the_example_with_a_kopf_operator(tmp_path: Path) -> None:
    pytest.importorskip("kopf")
    (tmp_path / "conftest.py").write_text(_EXAMPLES["existing"] + _EXAMPLES["kopf"])
    (tmp_path / "crd.yaml").write_text(_DEFINITION)
    (tmp_path / "shop_operator.py").write_text(_KOPF_OPERATOR)
    done = _pytest(tmp_path, _KOPF_SUITE)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "Handler 'create' succeeded" in done.stdout
    assert "Started controller" not in done.stdout, "a log of the cluster has no place in a report"
    assert "Stopped controller" not in done.stdout


def test_the_example_with_a_kopf_operator_that_ends(tmp_path: Path) -> None:
    pytest.importorskip("kopf")
    (tmp_path / "conftest.py").write_text(_EXAMPLES["existing"] + _EXAMPLES["kopf"])
    (tmp_path / "crd.yaml").write_text(_DEFINITION)
    (tmp_path / "shop_operator.py").write_text(
        "import pathlib, time\nwhile not pathlib.Path('end').exists(): time.sleep(0.05)\n"
        "raise ValueError('no handlers today')\n"
    )
    suite = (
        "import pathlib, time\ndef test_first(operator):\n    pathlib.Path('end').touch()\n"
        "    while not operator.future.done(): time.sleep(0.1)\ndef test_second(): ...\n"
    )
    done = _pytest(tmp_path, suite)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    reported = [line for line in done.stdout.splitlines() if line.startswith("the operator has ended: ")]
    assert reported == ["the operator has ended: ValueError('no handlers today')"] * 2, "also the first test says so"


_WITHOUT_CLIENT = """
import os, sys

import pytest

sys.modules.update(dict.fromkeys(("kubernetes", "kubernetes_asyncio", "pykube")))


@pytest.fixture(scope="session")
def kubernetes_cluster(pilothouse_server):
    os.environ["KUBECONFIG"] = str(pilothouse_server.kubeconfig)
"""


def test_the_example_with_a_kopf_operator_without_the_official_client(tmp_path: Path) -> None:
    pytest.importorskip("kopf")
    (tmp_path / "conftest.py").write_text(_WITHOUT_CLIENT + _EXAMPLES["kopf"])
    (tmp_path / "crd.yaml").write_text(_DEFINITION)
    (tmp_path / "shop_operator.py").write_text(
        "import kopf\n@kopf.on.create('example.com', 'v1', 'shops')\n"
        "def create(patch, **_):\n    patch.status['made'] = True\n"
    )
    done = _pytest(
        tmp_path,
        "def test_a_shop_is_made(pilothouse):\n"
        "    shop = {'apiVersion': 'example.com/v1', 'kind': 'Shop', 'metadata': {'name': 'tea'}}\n"
        "    pilothouse.create(shop)\n"
        "    pilothouse.wait_for('example.com/v1', 'Shop', 'tea', lambda tea: 'made' in (tea.get('status') or {}))\n",
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


_FAILING = """
from kubernetes import client

def test_fails():
    labels = {"app": "web"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web"}]}}
    deployment = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": pods}}
    client.AppsV1Api().create_namespaced_deployment("default", deployment)
    raise AssertionError
"""


def test_the_example_that_reports_why_a_test_failed(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    (tmp_path / "conftest.py").write_text(_EXAMPLES["existing"] + _EXAMPLES["why"])
    done = _pytest(tmp_path, _FAILING)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert re.search(r"^-+ pilothouse why -+\ndeployment/web in namespace default: ", done.stdout, re.M), done.stdout


_RIGHTS = """
import pytest
from kubernetes import client, config

def test_rights(pilothouse, pilothouse_server):
    assert pilothouse.url == pilothouse_server.url
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}, "user": "system:serviceaccount:a:b"}}
    assert client.AuthorizationV1Api().create_subject_access_review(review).status.allowed is False
"""


def test_the_example_with_rbac(tmp_path: Path) -> None:
    pytest.importorskip("kubernetes")
    (tmp_path / "conftest.py").write_text(_EXAMPLES["existing"] + _EXAMPLES["rbac"])
    done = _pytest(tmp_path, _RIGHTS)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_every_example_of_the_guide_is_tested() -> None:
    assert (_ROOT / "docs/testing.md").read_text().count("```python") == len(_EXAMPLES) == 18


def test_loading_the_plugin_imports_nothing_but_what_imports_lazily(tmp_path: Path) -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import pilothouse.testing.plugin;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = _python("-c", program, cwd=tmp_path)
    lazy = ["pilothouse.env", "pilothouse.env.lazy", "pilothouse.env.memory"]
    assert done.stdout.strip() == str(["pilothouse", *lazy, "pilothouse.testing", "pilothouse.testing.plugin"]), (
        done.stderr
    )


@cases(
    "source, message",
    {
        "a positional argument": (
            "@pytest.mark.pilothouse(3)\ndef test_it(pilothouse): ...",
            "takes keyword arguments only, got (3,)",
        ),
        "an unknown argument": (
            "@pytest.mark.pilothouse(node=3)\ndef test_it(pilothouse): ...",
            "has no argument 'node'; there are ",
        ),
        "a clock that can't be moved": (
            "def test_it(pilothouse):\n    pilothouse.advance(1)",
            "this plane's clock can't be moved: start it with movable_clock=True",
        ),
    },
)
def test_mistakes_are_reported_without_the_code_of_the_plugin(tmp_path: Path, source: str, message: str) -> None:
    done = _pytest(tmp_path, f"import pytest\n{source}\n")
    assert done.returncode == 1
    assert message in done.stdout
    assert "src/pilothouse/testing" not in done.stdout


def test_the_marker_on_a_test_of_the_shared_plane_is_a_warning(tmp_path: Path) -> None:
    source = "import pytest\n@pytest.mark.pilothouse(nodes=1)\ndef test_it({}): ...\n"
    done = _pytest(tmp_path, source.format("pilothouse_server"), "-W", "default")
    assert "1 passed, 1 warning" in done.stdout, done.stdout + done.stderr
    assert "@pytest.mark.pilothouse has no effect on pilothouse_server, which all tests share" in done.stdout
    done = _pytest(tmp_path, source.format("pilothouse_server, pilothouse"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import pilothouse.testing

    with pytest.raises(AttributeError, match="has no attribute 'planes'"):
        _ = pilothouse.testing.planes  # type: ignore[attr-defined]  # that is the point


_FAILS = """
def test_rejected(pilothouse):
    pilothouse.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "A_b"}})

def test_waits_in_vain(pilothouse):
    pilothouse.wait_for("v1", "Pod", "none", lambda pod: pod is not None, seconds=0.01)

def test_asks_wrongly(pilothouse):
    pilothouse.wait_for("v1", "Namespace", "default", lambda namespace: namespace.nothing)
"""


def test_a_traceback_ends_in_the_test_that_asked(tmp_path: Path) -> None:
    """Internal frames of pilothouse are hidden from errors of requests and waits. A failing condition is shown with its
    full traceback."""
    output = _pytest(tmp_path, _FAILS, "--tb=short").stdout
    refused, in_vain, wrongly = re.split("^___.*$", output, flags=re.MULTILINE)[1:]
    assert "test_example.py:3: in test_rejected" in refused
    assert "test_example.py:6: in test_waits_in_vain" in in_vain
    assert "src/pilothouse" not in refused + in_vain
    assert "src/pilothouse" in wrongly
    assert "test_example.py:9: in <lambda>" in wrongly
