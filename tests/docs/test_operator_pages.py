"""The code of the operator tutorial and recipes works as written."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.programs import ROOT, environment

_BLOCK = re.compile(r"<!-- (\w+) ([\w-]+): ([a-z]+) -->\n```python\n(.*?)```", re.DOTALL)
_PARTS = ("imports", "kind", "controller", "finalizer")
"""Of an operator's file, in its order. A step replaces what an earlier one has written."""
_LINE_LENGTH = 120


def blocks(page: str, sort: str) -> dict[tuple[str, str], str]:
    """The code of a page, by step or recipe and by part."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return {(name, part): code for block, name, part, code in _BLOCK.findall(text) if block == sort}


STEPS = blocks("tutorial-operator.md", "step")
RECIPES = blocks("operator-recipes.md", "recipe")


def operator_at(step: int) -> str:
    """The operator's file after a step."""
    latest = [
        next((STEPS[str(number), part] for number in range(step, 0, -1) if (str(number), part) in STEPS), "")
        for part in _PARTS
    ]
    return "\n\n".join(latest)


_RUN_TESTS = """
import os, sys, pytest
for folder in sys.argv[1:]:
    print("In", folder)
    os.chdir(folder)
    sys.path.insert(0, folder)
    code = pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", folder])
    if code:
        sys.exit(int(code))
    sys.path.remove(folder)
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]
"""


def run_tests(folders: Sequence[Path]) -> None:
    """In one process, whose start takes longer than one test."""
    for folder in folders:
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # else one of a folder above would count
    done = subprocess.run(
        [sys.executable, "-c", _RUN_TESTS, *map(str, folders)],
        cwd=folders[0],
        env=environment(folders[0]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\d+ passed", done.stdout, re.MULTILINE)) == len(folders), done.stdout


@pytest.mark.parametrize("steps", [pytest.param(range(1, 6), marks=pytest.mark.slow, id="1 to 5"), [6]])
def test_tutorial_works_after_every_step(steps: Sequence[int], tmp_path: Path) -> None:
    folders = []
    for step in steps:
        folder = tmp_path / f"step-{step}"
        folder.mkdir()
        (folder / "website_operator.py").write_text(operator_at(step), encoding="utf-8")
        # What was tested before holds after every further step.
        tests = [STEPS[str(number), "test"] for number in range(1, step + 1)]
        (folder / "test_website.py").write_text("\n\n".join(tests), encoding="utf-8")
        folders.append(folder)
    run_tests(folders)


@pytest.mark.slow
def test_tutorial_code_passes_mypy(tmp_path: Path) -> None:
    (tmp_path / "website_operator.py").write_text(operator_at(6), encoding="utf-8")
    cache = f"--cache-dir={ROOT / '.mypy_cache'}"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", cache, "website_operator.py"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_recipes_work(tmp_path: Path) -> None:
    folders = []
    for recipe in sorted({name for name, _part in RECIPES}):
        folder = tmp_path / recipe
        folder.mkdir()
        (folder / "recipe.py").write_text(RECIPES[recipe, "code"], encoding="utf-8")
        (folder / "test_recipe.py").write_text(RECIPES[recipe, "test"], encoding="utf-8")
        folders.append(folder)
    run_tests(folders)


@pytest.mark.parametrize("page", ["tutorial-operator.md", "operator-recipes.md"])
def test_all_code_blocks_are_tested(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    assert text.count("```python") == len(_BLOCK.findall(text)) > 0
    assert [line for line in text.splitlines() if len(line) > _LINE_LENGTH + 20] == []
