"""What log lines say of objects, in every story that is told here: names as people write them, no Python.

klog's forms: ``namespace/name``, what has a ``String()`` by it, lists as JSON.
"""

import logging
import re
from collections.abc import Callable, Iterator

import pytest
from tests.scenarios.test_daemonsets import test_whatever_is_done_to_pods_nodes_and_revisions_heals as daemons
from tests.scenarios.test_garbage import test_nothing_with_a_living_owner_goes_and_nothing_without_one_stays as garbage
from tests.scenarios.test_namespaces import test_a_deleted_namespace_ends_and_nothing_outside_is_touched as namespaces
from tests.scenarios.test_node_death import test_a_node_dies_and_its_pods_live_on_elsewhere as death

from pilothouse.env.logging import KlogFormatter, configure

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


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(lambda: garbage(1), id="garbage"),
        pytest.param(lambda: namespaces(1), id="namespaces"),
        pytest.param(lambda: daemons(1, True), id="daemons"),
        pytest.param(death, id="a node dies"),
    ],
)
def test_no_line_shows_python(reader: Reader, story: Callable[[], None]) -> None:
    story()
    assert reader.lines > 100
    assert reader.odd == {}
