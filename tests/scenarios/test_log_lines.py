"""Log lines format objects as klog does, in every scenario run here: no Python representations.

klog's forms: ``namespace/name``, what has a ``String()`` by it, lists as JSON.
"""

import logging
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from tests.scenarios import test_daemonsets, test_garbage, test_namespaces, test_node_death
from tests.tables import cases

from pilothouse.env.logging import KlogFormatter, configure
from pilothouse.sim import Simulation, SimulationOptions, simulate

_PYTHON = re.compile(
    r"\b\w+\(\w+="  # Struct(field=
    r"|\b[A-Z]\w+\(['\[\"]"  # Tuple('
    r"|<[\w.]+ (object|at 0x)"
    r"|[\[{(]'|\bb'"  # lists, dicts and bytes
    r"|=None\b|\"None\""
)


class Reader(logging.Handler):
    """Keeps one line of each message that shows something of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(KlogFormatter())
        self.lines = 0
        self.odd: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += 1
        line = self.format(record).partition("\n")[0].partition("] ")[2]
        if _PYTHON.search(line):
            self.odd.setdefault(line.partition('" ')[0], line)


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader()
    configure(v=6)
    root = logging.getLogger("pilothouse")
    root.handlers[:] = [reader]
    yield reader
    configure()


DAEMONS = test_daemonsets.test_recovers_from_changes_to_pods_nodes_and_revisions
GARBAGE = test_garbage.test_only_objects_without_an_existing_owner_are_deleted
NAMESPACES = test_namespaces.test_namespace_deletion_removes_only_its_content


@cases(
    "scenario, module, options",
    {
        "garbage": (lambda s: GARBAGE(s, 1), test_garbage, test_garbage.OPTIONS),
        "namespaces": (lambda s: NAMESPACES(s, 1), test_namespaces, test_namespaces.OPTIONS),
        "daemons": (lambda s: DAEMONS(s, 1, True), test_daemonsets, test_daemonsets.OPTIONS),
        "a node dies": (
            test_node_death.test_pods_of_a_dead_node_are_evicted_and_replaced,
            test_node_death,
            test_node_death.FOUR,
        ),
    },
)
def test_log_lines_have_no_python_repr(
    reader: Reader, scenario: Callable[[Simulation], Coroutine[Any, Any, None]], module: Any, options: SimulationOptions
) -> None:
    simulate(scenario, seed=1, options=options, invariants=module.invariants)
    assert reader.lines > 100
    assert reader.odd == {}
