"""The distribution of tests to the workers of ``make test``: groups as one unit, other tests in slices of a module, in
the order of the collection.

pytest-xdist's ``loadgroup`` makes every test without a group a unit. With 19,000 tests its scheduler then iterates over
all previous tests of a worker whenever one ends, and searches each in the list of all. And the tests of one module are
spread over all workers, each of which imports and caches what they need.
"""

from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController

_MAX_UNIT_SIZE = 16
_UNITS_LEFT = 64
"""A unit has at most this fraction of the remaining tests: at the end no worker has many while others have none."""


def work_units(nodeids: Sequence[str]) -> dict[str, str]:
    """The unit of each test, by its id: its group, or the id of the first test in its slice of the module."""
    result: dict[str, str] = {}
    module, unit, space = "", "", 0
    for place, nodeid in enumerate(nodeids):
        group = _group(nodeid)
        if group:
            result[nodeid] = group
            continue
        if space == 0 or module != nodeid.partition("::")[0]:
            module, unit = nodeid.partition("::")[0], nodeid
            space = min(_MAX_UNIT_SIZE, (len(nodeids) - place) // _UNITS_LEFT + 1)
        result[nodeid] = unit
        space -= 1
    return result


def _group(nodeid: str) -> str:
    """The suffix that pytest-xdist adds to the id for ``xdist_group``. Parameter values may contain an ``@``, too."""
    place = nodeid.rfind("@")
    return nodeid[place + 1 :] if place > nodeid.rfind("]") else ""


_WORKERS_WITH_FILLER = 4
"""This many workers, of which the last one takes units from the end."""


class WorkUnits(LoadGroupScheduling):
    """Assigns them in the order of the collection, the next one to the worker that has nearly finished.

    Tests at the front mostly wait for programs, those at the end compute. Of four workers, the last takes units from
    the end, so that the processors have work while the others wait.
    """

    def schedule(self) -> None:
        """Start, or replace a worker that has died."""
        if self.collection is None:
            nodeids = next(iter(self.registered_collections.values()))
            self._units = work_units(nodeids)
            self._places = {nodeid: place for place, nodeid in enumerate(nodeids)}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]

    def _assign_work_unit(self, node: WorkerController) -> None:
        work = self.assigned_work[node]
        for done in [unit for unit, tests in work.items() if all(tests.values())]:
            del work[done]
        unit, tests = self.workqueue.popitem(last=self._is_filler(node))
        work[unit] = tests
        node.send_runtest_some([self._places[nodeid] for nodeid, completed in tests.items() if not completed])

    def _is_filler(self, node: WorkerController) -> bool:
        workers = list(self.assigned_work)
        return len(workers) >= _WORKERS_WITH_FILLER and node is workers[-1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WorkUnits | None:
    """For ``--dist loadgroup``; other ways are pytest-xdist's own."""
    if config.getoption("dist") != "loadgroup":
        return None
    # The longest come first by ``pytest_collection_modifyitems``, and not those of the most tests.
    config.option.loadscopereorder = False
    return WorkUnits(config, log)
