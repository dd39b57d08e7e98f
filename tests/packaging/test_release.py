"""Requirements of a release tag, and the GitHub workflows and action."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import release
from tests.programs import ROOT
from tests.tables import cases

CHANGELOG = "# Changelog\n\n## Unreleased\n\n* new\n\n## 0.1.0 (2026-01-01)\n\n* old\n"

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""How runners run a step."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src/pilothouse").mkdir(parents=True)
    (tmp_path / "src/pilothouse/__init__.py").write_text('"""p"""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_release_is_prepared_tagged_and_described(tree: Path) -> None:
    release.check(tree, "v0.1.0")
    release.prepare(tree, "0.2.0", "2026-02-01")
    release.check(tree, "v0.2.0")
    assert release.notes(tree, "0.2.0") == "* new\n"
    assert "## Unreleased\n\n## 0.2.0 (2026-02-01)\n\n* new\n" in (tree / "CHANGELOG.md").read_text()


@cases(
    "version, changelog, message",
    {
        "not a version": ("next", CHANGELOG, "next is no version"),
        "empty changelog": ("0.2.0", CHANGELOG.replace("* new\n", ""), "nothing under"),
        "a version that is out": ("0.1.0", CHANGELOG, "a section 0.1.0 already"),
    },
)
def test_rejected_releases(version: str, changelog: str, message: str, tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(ValueError, match=message):
        release.prepare(tree, version, "2026-02-01")
    assert (tree / "CHANGELOG.md").read_text() == changelog


@cases(
    "tag, changelog, message",
    {
        "different version": ("v0.3.0", CHANGELOG, "is not v0.1.0"),
        "missing section": ("v0.1.0", "# Changelog\n", 'no section "## 0.1.0"'),
        "an empty section": ("v0.1.0", CHANGELOG.replace("* old\n", ""), "says nothing about 0.1.0"),
    },
)
def test_mismatching_tag(tag: str, changelog: str, message: str, tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(changelog)
    with pytest.raises(ValueError, match=message):
        release.check(tree, tag)


def workflow(name: str) -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows" / name).read_text("utf-8"))
    return result


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_workflow_targets_and_scripts_exist(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for job in workflow(name)["jobs"].values():
        for step in job.get("steps", []):
            for targets in re.findall(r"^make (.*)$", step.get("run", ""), re.MULTILINE):
                for target in targets.split():
                    assert f"\n{target}:" in makefile, target
            for script in re.findall(r"scripts/\w+", step.get("run", "")):
                assert os.access(ROOT / script, os.X_OK), script


def test_only_publishing_jobs_have_write_permissions() -> None:
    jobs = workflow("release.yml")["jobs"]
    writing = {name for name, job in jobs.items() for right in job["permissions"].values() if right == "write"}
    assert writing == {"build", "pypi", "image", "publish", "site"}
    assert jobs["pypi"]["environment"] == "pypi"
    assert workflow("ci.yml")["permissions"] == {"contents": "read"}


def test_action_adds_one_command_to_the_path(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if step["name"] == "Install pilothouse"]
    python = tmp_path / "python"  # its environments have the programs that pip would install
    python.write_text(
        "#!/bin/sh\n"
        f'echo "$2" >> "{tmp_path}/calls"\n'
        'test "$2" = venv || exit 0\n'
        'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cd "$3/bin"\n'
        "for each in pip pilothouse kube-controller-manager; do echo 'echo $0' > $each; chmod +x $each; done\n"
    )
    python.chmod(0o755)
    environment = {
        **os.environ, "PYTHON": str(python), "RUNNER_TEMP": str(tmp_path / "runner temp"),
        "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_PATH": str(tmp_path / "path"),
    }  # fmt: skip
    for _ in range(2):  # as a job with two clusters has it
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], env=environment, check=True
        )
    (folder,) = {Path(line) for line in (tmp_path / "path").read_text().splitlines()}
    assert [item.name for item in folder.iterdir()] == ["pilothouse"]
    assert os.access(folder / "pilothouse", os.X_OK)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls.count("venv") == 1, "the second use has the installation of the first one"


@cases(
    "version, message",
    {
        "too old": ("3, 10, 13", "pilothouse needs Python 3.11 or newer, and {python} is Python 3.10: "),
        "none": ("", "there is no Python interpreter {python}: "),
    },
)
def test_action_checks_the_version_of_python_first(version: str, message: str, tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if step["name"] == "Install pilothouse"]
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert requires == ">=3.11", "as the action has it"
    python = tmp_path / "python"
    if version:
        python.write_text(
            f'#!/bin/sh\ntest "$1" = -c || exit 9\n'
            f'exec "{sys.executable}" -c "import sys; sys.version_info = ({version})\n$2"\n'
        )
        python.chmod(0o755)
    environment = {**os.environ, "PYTHON": str(python), "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT)}
    done = subprocess.run([*BASH, step["run"]], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith(f"::error::{message.format(python=python)}")
    assert "actions/setup-python" in done.stdout


def test_action_needs_linux_or_macos(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if step["name"] == "Install pilothouse"]
    environment = {**os.environ, "PYTHON": "no-python", "RUNNER_TEMP": str(tmp_path), "RUNNER_OS": "Windows"}
    done = subprocess.run([*BASH, step["run"]], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "::error::pilothouse needs a runner with Linux or macOS\n")


def test_versions_of_actions_in_the_documentation_are_those_of_the_workflows() -> None:
    used: dict[str, str] = {}
    for name in ("ci.yml", "release.yml"):
        text = (ROOT / ".github/workflows" / name).read_text("utf-8")
        used.update(re.findall(r"uses: (actions/[\w-]+)@\w+ # (v\d+)", text))
    shown = re.findall(r"uses: (actions/[\w-]+)@(v\d+)", (ROOT / "docs/ci.md").read_text("utf-8"))
    assert shown
    assert dict(shown) == {name: used[name] for name, _version in shown}


def test_action_escapes_the_cluster_name(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "create"]
    program = tmp_path / "pilothouse"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"; echo; exit 3\n')
    program.chmod(0o755)
    inputs = {"NAME": "--kubeconfig=/etc/passwd", "FLAGS": "--nodes 1", "MANIFESTS": "-", "TIMEOUT": "1s"}
    environment = {**os.environ, **inputs, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([*BASH, step["run"]], env=environment, capture_output=True, text=True, check=False)
    words = "create|cluster|--in-memory|--timeout|1s|--filename|-|--nodes|1|--|--kubeconfig=/etc/passwd|"
    printed, annotation, *more = done.stdout.splitlines()
    assert (printed, more, done.returncode) == (words, [], 3)
    assert annotation.startswith("::error::The cluster was not created")


def test_action_takes_over_a_runner_that_keeps_its_machine(tmp_path: Path) -> None:
    """Clusters that a killed job left there are deleted once for each job, and those of other runners are not."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if step["name"] == "Take over the runner"]
    program = tmp_path / "pilothouse"
    program.write_text('#!/bin/sh\necho "$*" in "$XDG_STATE_HOME" with "$KUBECONFIG"; rm -f "$KUBECONFIG"\n')
    program.chmod(0o755)
    (tmp_path / "temp/pilothouse").mkdir(parents=True)
    environment = {
        **os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_NAME": "east/1 b",
        "RUNNER_TEMP": str(tmp_path / "temp"), "GITHUB_ENV": str(tmp_path / "env"), "RUNNER_ENVIRONMENT": "self-hosted",
    }  # fmt: skip
    environment.pop("KUBECONFIG", None)
    slot = tmp_path / ".pilothouse-ci/east_1_b"

    def run(**changed: str) -> str:
        done = subprocess.run(
            [*BASH, step["run"]], env={**environment, **changed}, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run(RUNNER_ENVIRONMENT="github-hosted") == ""
    assert run() == f"delete cluster --all in {slot} with {slot}/config\n"
    assert (slot / "config").exists(), "otherwise create cluster would choose the next file of KUBECONFIG"
    assert (
        tmp_path / "env"
    ).read_text() == f"XDG_STATE_HOME={slot}\nKUBECONFIG={slot}/config:{tmp_path}/.kube/config\n"
    assert run() == "", "a job that uses it twice keeps its first cluster"


@pytest.mark.slow
def test_action_creates_the_cluster_from_its_inputs(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    take, step = action["runs"]["steps"][-2:]
    inputs = {
        **{name: name_of_input.get("default", "") for name, name_of_input in action["inputs"].items()},
        "name": "of-the-action", "flags": "--nodes 1\n--node-prefix=worker-\n", "manifests": "a b.yaml\n\n",
    }  # fmt: skip
    (tmp_path / "a b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\n")
    programs = tmp_path / "pilothouse/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "pilothouse").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilothouse "$@"\n')
    (programs / "pilothouse").chmod(0o755)

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], text)

    environment = {
        **os.environ, **{name: filled(text) for name, text in step["env"].items()},
        "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"), "PATH": f"{programs}:{os.environ['PATH']}",
        "GITHUB_ENV": str(tmp_path / "env"), "RUNNER_ENVIRONMENT": "self-hosted", "RUNNER_NAME": "one",
    }  # fmt: skip
    environment.pop("KUBECONFIG", None)

    def run(*words: str) -> str:
        if (tmp_path / "env").exists():
            for line in (tmp_path / "env").read_text().splitlines():
                name, _equals, environment[name] = line.partition("=")
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        run(*BASH, take["run"])
        run(*BASH, step["run"])
        (tmp_path / "pilothouse/taken").unlink()  # the job is killed, and its cluster runs on
        run(*BASH, take["run"])
        run(*BASH, step["run"])
        outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
        assert outputs["context"] == "pilothouse-of-the-action"
        assert "worker-0" in run("pilothouse", "get", "nodes", "--kubeconfig", outputs["kubeconfig"])
        document = json.loads(run("pilothouse", "get", "configmaps", "made", "-o", "json"))
        assert document["metadata"]["name"] == "made"
    finally:
        run("pilothouse", "delete", "cluster", "--all")
