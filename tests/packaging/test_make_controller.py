"""``make controller`` generates a working controller: in a copy of the tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.programs import ROOT
from tests.tables import cases

pytestmark = pytest.mark.slow

NAME = "widget-labeler"
COPIED = ("src", "scripts", "deploy", "docs", "pyproject.toml")
NEEDED = (
    "connections.py",
    "controllers/api_world.py",
    "controllers/conftest.py",
    "controllers/node_world.py",
    "controllers/rights.py",
    "coroutines.py",
    "packaging/manifests.py",
    "real_cluster.py",
    "stores.py",
)
"""Of the tests: what the generated test imports and runs on."""

PYTEST_OPTIONS = ("-p", "no:cacheprovider", "-p", "tests.coroutines", "-o", "addopts=")


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{tree}:{tree / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )


def succeed(tree: Path, *arguments: str) -> str:
    done = run(tree, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, tmp_path / name)
    for name in NEEDED:
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "tests" / name, tmp_path / "tests" / name)
    return tmp_path


def test_generated_controller_works_and_passes_checks(tree: Path, soak: bool) -> None:
    succeed(tree, "scripts/make_controller.py", NAME, "--area", "policy", "--resource", "deployments.apps")
    succeed(tree, "-m", "ruff", "check", "--quiet", "src/pilothouse/controllers", "tests", "scripts/make_controller.py")
    succeed(tree, "-m", "ruff", "format", "--check", "src/pilothouse/controllers", "tests")
    assert "13 passed" in succeed(tree, "-m", "pytest", *PYTEST_OPTIONS, "tests")
    index = succeed(tree, "-m", "pilothouse.cli.controllers_reference")
    assert f"[{NAME}-controller](widget_labeler.md)" in index
    assert f"`{NAME}-controller`" in index.partition("Only pilothouse has ")[2].partition('"Alias"')[0]
    for manifest, places in (("rbac.yaml", 2), ("deployment.yaml", 1)):
        text = (tree / "deploy" / manifest).read_text("utf-8").partition("# Upstream has no")[0]
        assert text.count(f"{NAME}-controller") == places
    role, binding = [*yaml.safe_load_all((tree / "deploy/rbac.yaml").read_text("utf-8"))][-2:]
    assert role["rules"] == [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]}]
    assert role["metadata"] == binding["metadata"] == {"name": f"system:controller:{NAME}-controller"}
    assert binding["subjects"][0]["name"] == f"{NAME}-controller"
    if soak:  # without their caches these take a minute
        generated = ["src/pilothouse/controllers/policy/widget_labeler", "tests/controllers/widget_labeler"]
        succeed(tree, "-m", "mypy", *generated)
        succeed(tree, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")


def test_generated_owner_controller_works_and_passes_checks(tree: Path, soak: bool) -> None:
    command = ("scripts/make_controller.py", NAME, "--area", "policy", "--owns", "pods")
    succeed(tree, *command)
    succeed(tree, "-m", "ruff", "check", "--quiet", "src/pilothouse/controllers", "tests")
    succeed(tree, "-m", "ruff", "format", "--check", "src/pilothouse/controllers", "tests")
    assert "19 passed" in succeed(tree, "-m", "pytest", *PYTEST_OPTIONS, "tests")
    if soak:
        generated = ["src/pilothouse/controllers/policy/widget_labeler", "tests/controllers/widget_labeler"]
        succeed(tree, "-m", "mypy", *generated)
        succeed(tree, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")


@cases(
    "arguments, message",
    {
        "invalid name": (["Foo"], "is not a name of a controller"),
        "unknown area": (["foo", "--area", "nowhere"], "there is no area 'nowhere'"),
        "unknown resource": (["foo", "--resource", "foos"], "no view of 'foos'"),
        "existing name": (["ttl"], "there is a controller ttl already"),
        "cluster-scoped owner of namespaced objects": (
            ["foo", "--resource", "nodes", "--owns", "pods"],
            "nodes cannot own pods",
        ),
    },
)
def test_invalid_arguments_are_rejected(arguments: list[str], message: str) -> None:
    """Before anything is written: this runs in the tree itself."""
    done = run(ROOT, "scripts/make_controller.py", *arguments)
    assert done.returncode == 1
    assert message in done.stderr
