"""``pilothouse new operator``: the generated project works, and invalid names are explained."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.programs import ROOT, environment

from pilothouse.cli import main
from pilothouse.cli.scaffold import names_of, plural
from pilothouse.env import Env
from pilothouse.testing import async_plane

FILES = [
    ".gitignore", "Containerfile", "Makefile", "README.md", "backup_schedule_operator.py", "deploy/namespace.yaml",
    "deploy/operator.yaml", "examples/backupschedule.yaml", "pyproject.toml", "tests/test_backup_schedule_operator.py",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of a new operator, and its folder on the import path, go with the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("backup_schedule_operator", "website_operator"):
        monkeypatch.setitem(sys.modules, name, sys)
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new operator, in the folder of its name."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", "operator", "backup-schedule"]) == 0
    return tmp_path / "backup-schedule"


def test_every_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "operator", "backup-schedule"]) == 0
    project = tmp_path / "backup-schedule"
    assert sorted(str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()) == FILES
    printed = capsys.readouterr().out
    assert [path for path in FILES if f"  backup-schedule/{path}\n" not in printed] == []
    assert "pilothouse run backup_schedule_operator.py --dev --apply examples/" in printed
    assert printed.endswith("\n  python -m pytest\n")


def test_an_environment_without_pytest_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pilothouse.cli.new.find_spec", lambda _name: None)
    assert main(["new", "operator", "backup-schedule"]) == 0
    assert capsys.readouterr().out.endswith("  python -m pytest    # after: pip install pytest\n")


@pytest.mark.slow
def test_generated_project_passes_tests_types_and_style(project: Path) -> None:
    cache = f"--cache-dir={ROOT / '.mypy_cache'}"
    for command in (
        ["pytest", "-p", "no:cacheprovider"],
        ["mypy", cache],
        ["ruff", "check", "--no-cache", "."],
        ["ruff", "format", "--no-cache", "--check", "."],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=project,
            env=environment(project),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_mutable_defaults_of_views_pass_the_style_check(project: Path) -> None:
    pytest.importorskip("ruff")
    code = project / "backup_schedule_operator.py"
    field = "    image: str\n"
    changed = code.read_text("utf-8").replace(
        field, f"{field}    env: dict[str, str] = {{}}\n    hosts: list[str] = []\n"
    )
    assert "hosts" in changed
    code.write_text(changed, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "."], cwd=project, env=environment(project),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_project_installs_its_module_and_nothing_else(project: Path) -> None:
    pytest.importorskip("setuptools")
    build = ["-c", "import setuptools; setuptools.setup()", "--quiet", "build", "egg_info"]
    done = subprocess.run(
        [sys.executable, *build], cwd=project, env=environment(project), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in (project / "build/lib").iterdir()] == ["backup_schedule_operator.py"]
    (metadata,) = project.glob("*.egg-info")
    assert (metadata / "top_level.txt").read_text("utf-8") == "backup_schedule_operator\n"
    ignored = (project / ".gitignore").read_text("utf-8").splitlines()
    assert {"build/", "*.egg-info/"} <= set(ignored)


async def test_generated_manifests_and_example_apply(project: Path, env: Env) -> None:
    paths = [*sorted((project / "deploy").iterdir()), *(project / "examples").iterdir()]
    objects = [item for path in paths for item in yaml.safe_load_all(path.read_text("utf-8"))]
    async with async_plane(env=env) as cluster:
        for obj in objects:
            await cluster.create(obj)
        (operator,) = await cluster.in_namespace("backup-schedule-operator").list("apps/v1", "Deployment")
        await cluster.in_namespace("backup-schedule-operator").wait_for(
            "apps/v1",
            "Deployment",
            operator["metadata"]["name"],
            # Pod security admits the operator's pod.
            lambda found: found is not None and found["status"].get("readyReplicas") == 1,
        )
        assert (await cluster.get("example.com/v1alpha1", "BackupSchedule", "example"))["spec"]["replicas"] == 2


def test_the_manifests_are_those_of_make_manifests(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(
        ["generate", "manifests", str(project / "backup_schedule_operator.py"), "-n", "backup-schedule-operator",
         "--image", "registry.example.com/backup-schedule-operator:v0.1.0"]
    ) == 0  # fmt: skip
    assert capsys.readouterr().out == (project / "deploy/operator.yaml").read_text("utf-8")


def test_failed_make_manifests_keeps_the_existing_file(project: Path) -> None:
    before = {path: path.read_text("utf-8") for path in (project / "deploy").iterdir()}
    code = project / "backup_schedule_operator.py"
    code.write_text(f"{code.read_text('utf-8')}\nraise ValueError('no')\n")
    (project / "bin").mkdir()
    command = project / "bin/pilothouse"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m pilothouse "$@"\n')
    command.chmod(0o755)
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    completed = subprocess.run(
        ["make", "manifests"], cwd=project, env=environment(project) | {"PATH": path}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert completed.returncode == 2
    assert f"Error: {code}, line {len(code.read_text('utf-8').splitlines())}: ValueError: no" in completed.stderr
    assert {path: path.read_text("utf-8") for path in (project / "deploy").iterdir()} == before


def test_the_image_is_built_by_another_tool_and_of_an_unreleased_pilothouse(project: Path) -> None:
    """Without a release pip finds no pilothouse; the README has the flags. ``echo`` stands for the tool."""
    command = re.search(
        r"^make image.* BUILD_FLAGS=.*\\\n.*$", (project / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert command is not None
    # MAKEFLAGS, MAKELEVEL: this suite may itself run in a make.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    variables = {**inherited, "PILOTHOUSE_REPOSITORY": "https://example.com/p@1", "CONTAINER_TOOL": "echo"}
    done = subprocess.run(
        ["sh", "-c", command[0]], cwd=project, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == (
        "build --build-arg BASE=docker.io/library/python:3.13 --build-arg PILOTHOUSE=git+https://example.com/p@1"
        " -f Containerfile -t registry.example.com/backup-schedule-operator:v0.1.0 ."
    )


@pytest.mark.parametrize("existing", ["Makefile", "deploy/operator.yaml"])
def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str], existing: str) -> None:
    kept = tmp_path / existing
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine")
    assert main(["new", "operator", "website", "--directory", str(tmp_path)]) == 1
    assert f"{kept} exists and is not overwritten: name another --directory" in capsys.readouterr().err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]
    assert kept.read_text() == "mine"


def test_directory_may_have_other_files(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert main(["new", "operator", "website", "--directory", str(tmp_path), "--group=shop.example.org"]) == 0
    definition = next(yaml.safe_load_all((tmp_path / "deploy/operator.yaml").read_text("utf-8")))
    assert definition["metadata"]["name"] == "websites.shop.example.org"


def test_unwritable_directory_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["new", "operator", "website", f"--directory={tmp_path}/file/project"]) == 1
    assert "unable to write" in capsys.readouterr().err
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["operator", "My_App"],
            '"My_App" cannot name an operator (did you mean my-app?): a lowercase RFC 1123 label must consist of',
        ),
        (["operator", "GameServer"], '"GameServer" cannot name an operator (did you mean game-server?): a lowercase'),
        (["operator", "DNSZone"], '"DNSZone" cannot name an operator (did you mean dns-zone?): a lowercase RFC 1123'),
        (["operator", "-"], '"-" cannot name an operator: a lowercase RFC 1123 label'),
        (["operator", "a.b"], '"a.b" cannot name an operator: must not contain dots'),
        (["operator", "3d"], "3d would name its code, and is no identifier: begin with a letter"),
        (["operator", "none"], "None would name its code, and is a keyword"),
        (["operator", "class"], "class would name its code, and is a keyword"),
        (["operator", "x" * 60], "-operator must be no more than 63 characters"),
        (["operator", "deployment"], "its code imports another DEPLOYMENTS"),
        (["operator", "app-operator"], "its code imports another App"),
        (["operator", "website", "--group=example"], "--group example: the group of a custom resource is a domain"),
        (["operator", "website", "--group=Example.com"], "--group Example.com: a lowercase RFC 1123 subdomain"),
        (["operator", "website", "--group=web.k8s.io"], "--group web.k8s.io: groups of k8s.io and kubernetes.io are"),
        (["operator"], 'expected "pilothouse new operator NAME", got operator'),
        (["controller", "x"], 'expected "pilothouse new operator NAME", got controller x'),
        ([], 'expected "pilothouse new operator NAME", got nothing'),
    ],
)
def test_invalid_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "expected"),
    [("policy", "policies"), ("gateway", "gateways"), ("proxy", "proxies"), ("bus", "buses"), ("batch", "batches"),
     ("website", "websites"), ("y", "ies")],
)  # fmt: skip
def test_plurals(word: str, expected: str) -> None:
    assert plural(word) == expected


def test_names_of_an_operator_with_its_suffix() -> None:
    names = names_of("cache-operator", "example.com")
    assert (names.app, names.module, names.kind, names.constant) == (
        "cache-operator",
        "cache_operator",
        "Cache",
        "CACHES",
    )
