"""Import rules that import-linter has no contract for: no cycles, and a layer for every module."""

import re
import tomllib
from pathlib import Path

import grimp
from tests.tables import cases


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or indirectly (Tarjan)."""
    result: list[list[str]] = []
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: list[str] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        open_modules.append(module)
        for imported in sorted(imports.get(module, ())):
            if imported not in order:
                visit(imported)
            if imported in open_modules:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == order[module]:
            first = open_modules.index(module)
            group = open_modules[first:]
            del open_modules[first:]
            if len(group) > 1:
                result.append(sorted(group))

    for module in sorted(imports):
        if module not in order:
            visit(module)
    return sorted(result)


@cases(
    "imports, expected",
    {
        "a line": ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        "diamond without cycle": ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, []),
        "cycle of two": ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        "three": ({"z": {"a"}, "a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, [["a", "b", "c"]]),
        "two cycles": ({"a": {"b"}, "b": {"a"}, "c": {"a", "d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    },
)
def test_circles(imports: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(imports) == expected


def test_child_interpreters_import_nothing_from_the_current_directory() -> None:
    """A ``logging.py`` in the directory of the user would be imported instead of Python's own, hence ``-P``."""
    sources = [path.read_text("utf-8") for path in Path("src").rglob("*.py")]
    started = [words for text in sources for words in re.findall(r"sys\.executable,\s*(.*)", text)]
    assert len(started) >= 4
    assert [words for words in started if not words.startswith('"-P",')] == []


def test_no_import_cycles() -> None:
    """Imports for type checkers alone count, and lazy ones: a circle is two files that cannot be understood one by one.
    What both need moves down, or the lower one says by a ``Protocol`` what it needs of the upper one."""
    graph = grimp.build_graph("pilothouse", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 900
    assert circles(imports) == []


def layers_inside(package: str) -> set[str]:
    """The modules that the contract for the inside of a package places."""
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    (contract,) = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == [package]
    )
    return {f"{package}.{name}" for layer in contract["layers"] for name in layer.split(" : ")}


def test_every_apiserver_module_has_a_layer() -> None:
    """One that has none could import anything, and be imported by anybody."""
    package = "pilothouse.apiserver"
    placed = layers_inside(package)
    graph = grimp.build_graph("pilothouse", cache_dir=None)
    files = {module for module in graph.modules if module.startswith(f"{package}.")}
    without = {
        module
        for module in files
        if not any(module == layer or module.startswith(f"{layer}.") for layer in placed)
        and graph.find_modules_directly_imported_by(module)
    }
    assert len(files) > 200
    assert without == set()
