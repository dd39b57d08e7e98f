"""Distribution of tests to workers."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.work_units import WorkUnits, work_units
from xdist.remote import Producer


def ids(module: str, count: int) -> list[str]:
    return [f"tests/{module}.py::test_{number}[a@b]" for number in range(count)]


GROUP = ["tests/c.py::test_up@the cluster", "tests/d.py::test_down[x]@the cluster"]


def test_groups_are_one_unit_and_modules_are_split_into_shrinking_units() -> None:
    tests = [GROUP[0], *ids("a", 3000), *ids("b", 5), GROUP[1]]
    result = work_units(tests)
    assert list(result) == tests
    assert result[GROUP[0]] == result[GROUP[1]] == "the cluster"
    stretches = Counter(result[test] for test in ids("a", 3000))
    sizes = list(stretches.values())
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (16, 1)
    assert not set(stretches) & {result[test] for test in ids("b", 5)}
    assert [stretch for stretch, _size in stretches.items() if stretch not in tests] == []


class Worker:
    """The interface of a worker for the scheduler."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, places: list[int]) -> None:
        self.given += places

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduling(tests: list[str], workers: list[Any]) -> WorkUnits:
    config: Any = SimpleNamespace(
        getvalue=lambda _name: ["popen"] * len(workers), option=SimpleNamespace(loadscopereorder=False)
    )
    result = WorkUnits(config, Producer("tests", enabled=False))
    for worker in workers:
        result.add_node(worker)
        result.add_node_collection(worker, tests)
    result.schedule()
    return result


def run(tests_found: WorkUnits, workers: list[Any], done: Counter[Worker]) -> None:
    """Each worker in turn runs one test, until none is left."""
    while any(done[worker] < len(worker.given) for worker in workers):
        for worker in workers:
            if done[worker] < len(worker.given):
                done[worker] += 1
                tests_found.mark_test_complete(worker, worker.given[done[worker] - 1])


def test_every_test_runs_once_and_a_group_on_one_worker() -> None:
    tests = [GROUP[0], *ids("a", 500), *ids("b", 77), GROUP[1], *ids("c", 3)]
    workers = [Worker(), Worker(), Worker()]
    result = scheduling(tests, workers)
    run(result, workers, Counter())
    assert sorted(place for worker in workers for place in worker.given) == list(range(len(tests)))
    assert result.tests_finished
    assert not result.has_pending
    assert all(worker.shutting_down for worker in workers)
    group = {place for place, test in enumerate(tests) if test in GROUP}
    assert [group <= set(worker.given) for worker in workers if group & set(worker.given)] == [True]
    counts = [len(worker.given) for worker in workers]
    assert max(counts) - min(counts) <= 4, "none has much left when the others have nothing"


def test_last_of_four_workers_starts_at_the_end() -> None:
    tests = [f"tests/clients/test_{number}.py::test_up@test_{number}.py" for number in range(30)] + ids("a", 500)
    workers = [Worker() for _ in range(4)]
    result = scheduling(tests, workers)
    first = list(workers[-1].given)
    run(result, workers, Counter())
    assert min(first) >= 30, "what waits is left to the others"
    assert sorted(place for worker in workers for place in worker.given) == list(range(len(tests)))


def test_tests_of_a_dead_worker_are_rescheduled() -> None:
    tests = ids("a", 100)
    workers = [Worker(), Worker()]
    result = scheduling(tests, workers)
    workers_ended, alive = workers
    result.mark_test_complete(workers_ended, workers_ended.given[0])
    crashed = result.remove_node(workers_ended)
    assert crashed == tests[workers_ended.given[1]]
    run(result, [alive], Counter())
    assert sorted([workers_ended.given[0], *alive.given]) == list(range(100))
