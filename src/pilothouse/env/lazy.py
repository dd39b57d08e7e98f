"""Imports that are executed at the first use of the module.

Each module that is loaded at startup costs a fifth of a millisecond. What is needed for rare requests, some objects or
one command is imported in a block at the top of the module that uses it:

    with lazy_imports():
        from cryptography import x509
        from pilothouse.apiserver.endpoints import eviction

For readers, type checkers and refactoring tools these are ordinary import statements. Here each binds a ``LazyModule``:
its first use (reading or setting an attribute) imports the module and replaces the proxy, so that later uses cost the
same as after an ordinary import. Only *modules* can be imported lazily: functions are called as ``eviction.evict(…)``.
Annotations with such a module must be quoted, because they are evaluated otherwise.

A package that re-exports names can import each at its first use:

    with lazy_exports():
        from pilothouse.runtime.backoff import Backoff

The errors of a failing import are raised at the first use. Other imports are not affected: a block only applies to the
import statements inside it, whatever other threads do in the meantime.
"""

import builtins
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

_lock = threading.Lock()
_open: "dict[int, _Block]" = {}
"""The active blocks, by the identity of their module's globals. Two threads are never in blocks of the same module,
because the import system locks it."""


class LazyModule:
    """The proxy of a lazily imported module."""

    __slots__ = ("_block", "_loaded", "_members", "_name", "_submodules")

    _block: "_Block"
    _loaded: Any
    _members: "dict[str, LazyModule]"
    _name: str
    _submodules: list[str]

    def __init__(self, name: str, block: "_Block") -> None:
        for slot, value in (
            ("_name", name),
            ("_block", block),
            ("_loaded", None),
            ("_members", {}),
            ("_submodules", []),
        ):
            object.__setattr__(self, slot, value)

    def __getattr__(self, attribute: str) -> Any:
        if self._block.is_open:  # an import statement takes its names from here
            return _member(self, attribute)
        return getattr(_load(self), attribute)

    def __setattr__(self, attribute: str, value: Any) -> None:
        setattr(_load(self), attribute, value)

    def __delattr__(self, attribute: str) -> None:
        delattr(_load(self), attribute)

    def __dir__(self) -> list[str]:
        return dir(_load(self))

    def __repr__(self) -> str:
        return f"<lazily imported module {self._name!r}>"


def _member(lazy: LazyModule, name: str) -> LazyModule:
    if name not in lazy._members:
        lazy._members[name] = LazyModule(f"{lazy._name}.{name}", lazy._block)
    return lazy._members[name]


def _load(lazy: LazyModule) -> Any:
    if lazy._loaded is None:
        importer = lazy._block.importer
        if getattr(importer.get("__spec__"), "_initializing", False):
            raise ImportError(f"{importer['__name__']} uses {lazy._name} while it is imported itself: not lazily")
        try:
            module = importlib.import_module(lazy._name)
        except ModuleNotFoundError as error:
            if Path(__file__).exists():
                raise
            folder = Path(__file__).parents[1]
            raise ImportError(
                f"{folder} was deleted while this program runs: install it again and restart ({error})"
            ) from error
        for submodule in lazy._submodules:
            importlib.import_module(submodule)
        object.__setattr__(lazy, "_loaded", module)
        for name, value in list(importer.items()):
            if value is lazy:
                importer[name] = module
    return lazy._loaded


class _Block:
    """A ``with`` statement at the top of a module, whose globals are ``importer``."""

    def __init__(self) -> None:
        frame = sys._getframe(2)
        if frame.f_globals is not frame.f_locals:
            raise ImportError("lazy imports stand at the top level of a module")
        self.importer: dict[str, Any] = frame.f_globals
        self.is_open = False
        self._roots: dict[str, LazyModule] = {}

    def __enter__(self) -> None:
        with _lock:
            if not _open:
                builtins.__import__ = functools.partial(_import, builtins.__import__)
            _open[id(self.importer)] = self
            self.is_open = True

    def __exit__(self, *_failure: object) -> None:
        with _lock:
            self.is_open = False
            del _open[id(self.importer)]
            installed = builtins.__import__
            # Another hook installed later stays: without active blocks this one only forwards.
            if not _open and isinstance(installed, functools.partial) and installed.func is _import:
                builtins.__import__ = installed.args[0]

    def imported(self, name: str, desired: Sequence[str] | None) -> LazyModule:
        """The object from which the statement takes its names: a.b for ``from a.b import c``, and a for ``import
        a.b``."""
        first = name if desired else name.partition(".")[0]
        if first not in self._roots:
            self._roots[first] = LazyModule(first, self)
        root = self._roots[first]
        if first != name:
            root._submodules.append(name)
        return root


def _import(  # the parameters of builtins.__import__, and the previous function
    original_import: Callable[..., Any],
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    block = _open.get(id(globals))
    if block is None:
        return original_import(name, globals, locals, fromlist, level)
    if level or "*" in (fromlist or ()):
        raise ImportError(f"{block.importer['__name__']}: lazy imports are absolute, and by name")
    return block.imported(name, fromlist)


class lazy_imports(_Block):  # noqa: N801  reads as a statement
    """``with lazy_imports():`` modules that are loaded at their first use in this module."""

    def __init__(self) -> None:
        super().__init__()

    def __exit__(self, *failure: object) -> None:
        super().__exit__(*failure)
        package = self.importer["__name__"]
        for name, value in self.importer.items():
            if _is_of(value, self) and value._name == f"{package}.{name}":
                # An import from the package would get the proxy, and keep it.
                raise ImportError(f"{package} imports its submodule {name} lazily: give it another name")


class lazy_exports(_Block):  # noqa: N801
    """``with lazy_exports():`` names that are loaded when they are imported from this module.

    ``during`` creates a context in which they are loaded.
    """

    def __init__(self, during: Callable[[], AbstractContextManager[Any]] = nullcontext) -> None:
        super().__init__()
        self._during = during

    def __exit__(self, *_failure: object) -> None:
        super().__exit__()
        exports = {name: value._name for name, value in self.importer.items() if _is_of(value, self)}
        for name in exports:
            del self.importer[name]
        self.importer["__getattr__"] = functools.partial(_export, self.importer, exports, self._during)
        self.importer["__dir__"] = lambda: sorted(self.importer.get("__all__") or {*self.importer, *exports})


def _is_of(value: Any, block: _Block) -> bool:
    return type(value) is LazyModule and value._block is block


def _export(
    exporter: dict[str, Any],
    exports: Mapping[str, str],
    during: Callable[[], AbstractContextManager[Any]],
    name: str,
) -> Any:
    if name not in exports:
        raise AttributeError(f"module {exporter['__name__']!r} has no attribute {name!r}")
    home, _dot, attribute = exports[name].rpartition(".")
    with during():
        value = getattr(importlib.import_module(home), attribute)
    exporter[name] = value
    return value
