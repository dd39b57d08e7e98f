"""References to files and modules exist: in ``docs/ARCHITECTURE.md``, in all pages, and in docstrings."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import ROOT

SOURCE = ROOT / "src" / "pilothouse"
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = sorted(
    path for folder in ("src", "tests", "bench", "examples", "scripts") for path in (ROOT / folder).rglob("*.py")
)

_QUOTED_PATH = re.compile(r"`([\w./-]+/[\w./-]*)`")
_PATH = re.compile(r"(?<![\w./-])((?:src/pilothouse|tests|docs)/[\w/.*-]*\w)")
_MODULE = re.compile(r"(?<![\w./:-])(pilothouse(?:\.[a-zA-Z_]\w*)+)")
_CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^ *(?:from|import) .*$", re.MULTILINE)
_NO_MODULES = ("pilothouse.cloud_providers", "pilothouse.io")
"""An entry point's group, and an API group of examples."""


def paths_of_the_page() -> list[str]:
    named = set(_QUOTED_PATH.findall(PAGE.read_text(encoding="utf-8")))
    return sorted(path for path in named if not path.startswith("/"))


def exists(path: str) -> bool:
    """Whether a path exists, from the root of the repository; ``*`` is a wildcard."""
    return any(ROOT.glob(path.rstrip("/"))) if "*" in path else (ROOT / path).exists()


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    module, attributes = name, list[str]()
    while True:
        try:
            result = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module, _dot, attribute = module.rpartition(".")
            attributes.insert(0, attribute)
    for attribute in attributes:
        if not hasattr(result, attribute):
            return False
        result = getattr(result, attribute)
    return True


def docstrings(path: Path) -> Iterator[str]:
    """The strings that stand for themselves, of a file that may have broken references in them: docstrings of modules,
    classes, functions and attributes."""
    text = path.read_text(encoding="utf-8")
    if not broken(_IMPORT.sub("", text)):
        return  # nor is anything in them: to parse it takes ten times as long
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def broken(text: str) -> list[str]:
    """References in a text that lead nowhere."""
    paths = (path for path in _PATH.findall(text) if not exists(path) and not exists(f"{path}.py"))
    modules = (name for name in _MODULE.findall(text) if not name.startswith(_NO_MODULES) and not is_defined(name))
    return sorted({*paths, *modules})


@pytest.mark.parametrize("path", paths_of_the_page())
def test_every_path_exists(path: str) -> None:
    base = ROOT if path.startswith(("src/", "tests/", "docs/")) else SOURCE
    assert (base / path).exists()


def test_every_package_is_listed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for package in SOURCE.iterdir():
        assert not (package / "__init__.py").exists() or f"`{package.name}/`" in text, f"{package.name} is missing"


def test_question_table_has_twenty_rows() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Where is")[2].partition("\n## ")[0]
    assert section.count("? |") >= 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_references_in_pages_exist(page: Path) -> None:
    assert broken(_CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))) == []


def test_references_in_docstrings_exist() -> None:
    result = {str(path.relative_to(ROOT)): broken("\n".join(docstrings(path))) for path in CODE}
    assert {path: references for path, references in result.items() if references} == {}


def test_missing_references_are_detected() -> None:
    assert broken("see pilothouse.runtime.nothing and tests/nowhere/test_it.py") == [
        "pilothouse.runtime.nothing",
        "tests/nowhere/test_it.py",
    ]
    assert broken("pilothouse.runtime.informer.SharedInformer, simulated.pilothouse.dev, tests/runtime") == []
