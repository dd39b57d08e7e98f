"""Loads the modules that a running program has not needed yet, in small steps after its start.

They are imported at their first use (``lazy``), which keeps starts short. A program that runs for days would then
import files of another version after an upgrade, and fail once its environment is deleted.
"""

import asyncio
import importlib
import pkgutil
import sys
from collections.abc import Collection, Iterator

from pilothouse.env.logging import Log

AFTER_SECONDS = 60.0
"""After the start: short programs, such as a cluster of one test, load nothing."""
STEP_SECONDS = 0.05
"""Between two modules, most of which take a millisecond."""
_LEFT_OUT = ("pilothouse.storage", "pilothouse.tracing", "pilothouse.plane.etcd_store", "pilothouse.cli")
"""What is used from the start or never, and has large dependencies: 19 of 30 MB."""

_log = Log("modules")


async def load_remaining_modules(root: str = "pilothouse", *, left_out: Collection[str] = _LEFT_OUT) -> None:
    """Load the modules of those packages of ``root`` of which the program uses any."""
    await asyncio.sleep(AFTER_SECONDS)
    for name in list(_missing(root, left_out)):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001  # one that needs an extra, for example; its use reports it
            _log.info("Module can't be loaded", v=2, module=name, reason=str(error))
        await asyncio.sleep(STEP_SECONDS)


def _missing(root: str, left_out: Collection[str]) -> Iterator[str]:
    used = {".".join(name.split(".")[:2]) for name in list(sys.modules) if name.startswith(f"{root}.")}
    for package in sorted(used):
        path = getattr(sys.modules.get(package), "__path__", None)
        yield from () if path is None else _below(package, path, left_out)


def _below(package: str, path: Collection[str], left_out: Collection[str]) -> Iterator[str]:
    for module in pkgutil.iter_modules(path, f"{package}."):
        if module.name in left_out or package in left_out or module.name.endswith("__main__"):
            continue
        if module.name not in sys.modules:
            yield module.name
        if module.ispkg:
            yield from _below(module.name, [f"{each}/{module.name.rpartition('.')[2]}" for each in path], left_out)
