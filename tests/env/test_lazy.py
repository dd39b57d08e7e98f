"""Lazy imports: nothing is loaded before its first use, and no proxy remains afterwards."""

import ast
import builtins
import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pilothouse.env.lazy import LazyModule

ROOT = Path(__file__).parents[2] / "src"
NOT_EVERYWHERE = {"fcntl", "resource", "uvloop"}
"""Not on every system."""
_HEAD = "from pilothouse.env.lazy import lazy_exports, lazy_imports\n"
_IMPORTS = _HEAD + "with lazy_imports():\n    "
_EXPORTS = _HEAD + "with lazy_exports():\n    "


class Package:
    """Modules of a package, written by a test."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "lazily"
        self._directory.mkdir()
        self.write("__init__", "")
        self.write("heavy", "VALUE = 1\ndef double(x): return 2 * x\n")
        (self._directory / "inner").mkdir()
        self.write("inner/__init__", "")
        self.write("inner/deep", "VALUE = 2\n")

    def write(self, name: str, text: str) -> None:
        (self._directory / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    def load(self, text: str) -> ModuleType:
        """The module ``lazily.user`` with that text."""
        self.write("user", text)
        sys.modules.pop("lazily.user", None)
        return importlib.import_module("lazily.user")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Package(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazily"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("statement", "use", "loads", "value"),
    [
        ("from lazily import heavy", "heavy.VALUE", "lazily.heavy", 1),
        ("from lazily import heavy as h", "h.double(4)", "lazily.heavy", 8),
        ("from lazily.inner import deep", "deep.VALUE", "lazily.inner.deep", 2),
        ("import lazily.inner.deep as d", "d.VALUE", "lazily.inner.deep", 2),
        ("import lazily.inner.deep", "lazily.inner.deep.VALUE", "lazily.inner.deep", 2),
        ("import lazily.heavy, lazily.inner.deep", "lazily.heavy.VALUE + lazily.inner.deep.VALUE", "lazily.heavy", 3),
        ("from lazily import heavy", "dir(heavy).index('double') >= 0", "lazily.heavy", True),
    ],
)
def test_module_is_loaded_on_first_use(package: Package, statement: str, use: str, loads: str, value: object) -> None:
    user = package.load(f"{_IMPORTS}{statement}\ndef use(): return {use}\n")
    assert loads not in sys.modules
    assert user.use() == value
    assert loads in sys.modules
    assert not [name for name, attribute in vars(user).items() if type(attribute) is LazyModule], "the proxy makes way"
    assert user.use() == value


def test_proxy_forwards_to_the_module(package: Package) -> None:
    user: Any = package.load(_IMPORTS + "from lazily import heavy\nKEPT = [heavy]\n")
    assert repr(user.KEPT[0]) == "<lazily imported module 'lazily.heavy'>"
    assert user.KEPT[0].VALUE == user.KEPT[0].VALUE == 1
    user.KEPT[0].VALUE = 5
    assert sys.modules["lazily.heavy"].VALUE == user.heavy.VALUE == 5
    del user.KEPT[0].VALUE
    assert not hasattr(user.heavy, "VALUE")


def test_exported_names_are_loaded_on_import(package: Package) -> None:
    user = package.load(_EXPORTS + "from lazily.heavy import VALUE, double as twice\n__all__ = ['VALUE', 'twice']\n")
    assert "lazily.heavy" not in sys.modules
    assert {"VALUE", "twice"} <= set(dir(user))
    scope: dict[str, Any] = {}
    exec("from lazily.user import VALUE, twice", scope)
    assert scope["twice"](scope["VALUE"]) == 2
    assert vars(user)["VALUE"] == 1, "the second time it is there"
    with pytest.raises(AttributeError, match=r"module 'lazily\.user' has no attribute 'triple'"):
        _ = user.triple


def test_exports_are_loaded_in_the_given_context(package: Package) -> None:
    user: Any = package.load(
        _HEAD + "import contextlib\nSEEN = []\n"
        "@contextlib.contextmanager\ndef noted():\n    SEEN.append('before')\n    yield\n    SEEN.append('after')\n"
        "with lazy_exports(noted):\n    from lazily.heavy import VALUE\n"
    )
    assert user.SEEN == []
    assert (user.VALUE, user.SEEN) == (1, ["before", "after"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_IMPORTS + "from lazily import heavy\nheavy.VALUE\n", "lazily.user uses lazily.heavy while it is imported"),
        (_IMPORTS + "from . import heavy\n", "lazily.user: lazy imports are absolute, and by name"),
        (_IMPORTS + "from lazily.heavy import *\n", "lazily.user: lazy imports are absolute, and by name"),
        (
            "__name__ = 'lazily'\n" + _IMPORTS + "from lazily import heavy\n",
            "lazily imports its submodule heavy lazily",
        ),
        (
            _HEAD + "def late():\n    with lazy_imports():\n        import lazily.heavy\nlate()\n",
            "top level of a module",
        ),
    ],
    ids=["used while it is loaded", "relative", "star", "own submodule", "in a function"],
)
def test_unsupported_lazy_imports_are_rejected(package: Package, text: str, message: str) -> None:
    before = builtins.__import__
    with pytest.raises(ImportError, match=message):
        package.load(text)
    assert builtins.__import__ is before


def test_failing_import_is_raised_by_each_use(package: Package) -> None:
    package.write("broken", "raise RuntimeError('broken')\n")
    user = package.load(_IMPORTS + "from lazily import broken, missing\ndef use(which): return globals()[which].X\n")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            user.use("broken")
        with pytest.raises(ModuleNotFoundError, match=r"lazily\.missing"):
            user.use("missing")


def test_imports_of_other_threads_and_modules_are_not_lazy(package: Package) -> None:
    """While one thread is in a block, another one imports normally, also in blocks of its own."""
    package.write("pause", "import threading\nINSIDE, GO_ON = threading.Event(), threading.Event()\n")
    pause: Any = importlib.import_module("lazily.pause")
    before = builtins.__import__
    package.write(
        "slow",
        f"from lazily.pause import INSIDE, GO_ON\n{_IMPORTS}INSIDE.set()\n    assert GO_ON.wait(20)\n"
        "    from lazily import heavy\ndef use(): return heavy.VALUE\n",
    )
    thread = threading.Thread(target=importlib.import_module, args=("lazily.slow",))
    thread.start()
    try:
        assert pause.INSIDE.wait(20)
        assert builtins.__import__ is not before
        user = package.load(_IMPORTS + "from lazily.inner import deep\nimport lazily.heavy as eager\n")
        assert type(vars(user)["deep"]) is LazyModule
        assert user.eager.VALUE == 1
    finally:
        pause.GO_ON.set()
        thread.join(20)
    assert builtins.__import__ is before
    assert type(vars(sys.modules["lazily.slow"])["heavy"]) is LazyModule
    assert sys.modules["lazily.slow"].use() == 1


def test_import_hooks_of_others_are_kept(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    package.write(
        "hook", "import builtins\nFRONT = [None]\ndef put(): builtins.__import__ = FRONT[0](builtins.__import__)\n"
    )
    hook: Any = importlib.import_module("lazily.hook")

    def front(behind: Any) -> Any:
        def importing(name: str, *others: Any) -> Any:
            names.append(name)
            return behind(name, *others)

        return importing

    hook.FRONT[0] = front
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    package.load(f"from lazily.hook import put\n{_IMPORTS}put()\n    from lazily import heavy\n")
    user = package.load(_IMPORTS + "from lazily import heavy\ndef use(): return heavy.VALUE\n")
    assert builtins.__import__.__name__ == "importing"
    names.clear()
    assert user.use() == 1
    assert "lazily" not in names, "of the block that stood open when the hook came nothing is left"
    __import__("lazily")
    assert "lazily" in names


def lazily_imported() -> Iterator[tuple[str, str]]:
    """Each of our modules with the modules it imports lazily."""
    for path in sorted((ROOT / "pilothouse").rglob("*.py")):
        text = path.read_text()
        if "lazy_imports()" not in text:
            continue
        for block in ast.parse(text).body:
            if isinstance(block, ast.With) and "lazy_imports" in ast.unparse(block.items[0]):
                for statement in block.body:
                    assert isinstance(statement, ast.Import | ast.ImportFrom), f"{path}: {ast.unparse(statement)}"
                    parent = f"{statement.module}." if isinstance(statement, ast.ImportFrom) else ""
                    for alias in statement.names:
                        yield str(path.relative_to(ROOT)), parent + alias.name


def test_only_modules_are_imported_lazily() -> None:
    """Type checkers also accept a function there; it would be imported as a module at its first use."""
    result = {name: path for path, name in lazily_imported()}
    assert len(result) > 100
    for name, path in result.items():
        with contextlib.suppress(ImportError) if name in NOT_EVERYWHERE else contextlib.nullcontext():
            assert isinstance(importlib.import_module(name), ModuleType), path
