"""The hook for coroutine tests, on a file of them in a nested pytest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import cases

_ROOT = Path(__file__).parents[1]

_SOURCE = """
import asyncio
import pytest
from pilothouse.env import TaskGroup
from pilothouse.env.virtual import VirtualLoop

@pytest.fixture(params=["a", "b"])
def letter(request):
    return request.param

@pytest.fixture
async def notes(env):
    notes = []
    yield notes
    print("notes", notes, env.monotonic())

@pytest.fixture
async def group(notes, letter):
    async with TaskGroup() as group:
        yield group
        notes.append(letter)
        group.cancel()

@pytest.fixture
async def task():
    return asyncio.current_task()

@pytest.fixture
def early(env):
    return env

@pytest.fixture
def plain():
    return 1

async def test_passes(env, plain, group, notes, task):
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    assert asyncio.current_task() is task
    assert (plain, notes, env.now().year) == (1, [], 2026)
    group.start(asyncio.sleep(7200))
    await asyncio.sleep(3600)

@pytest.mark.real_loop
async def test_is_real(env):
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    assert env.now().year > 2000
    await asyncio.to_thread(print, "in a thread")

@pytest.mark.parametrize("seed", [0, 1])
async def test_has_a_seed(env, seed):
    print("seed", seed, env.name_suffix())

async def test_fails(env):
    found = {"a": env.now().year}
    await asyncio.sleep(1)
    assert found == {"a": 1}

async def test_is_failed_by_its_fixture(group):
    async def fails():
        raise KeyError("in the background")
    group.start(fails())
    await asyncio.sleep(1)

async def test_waits_for_nothing():
    await asyncio.get_running_loop().create_future()

@pytest.mark.real_loop(timeout=0.05)
async def test_takes_too_long():
    await asyncio.sleep(60)

async def test_asks_in_the_wrong_order(early):
    pass

def test_is_no_coroutine(task):
    pass
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("coroutines")
    (directory / "test_it.py").write_text(_SOURCE)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = real_loop: on the real loop\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "tests.coroutines", str(directory)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["passes[a]", "passes[b]", "is_real", "has_a_seed[0]", "has_a_seed[1]"])
def test_coroutine_test_passes(output: str, name: str) -> None:
    assert f"PASSED test_it.py::test_{name}" in output


@cases(
    "name, line",
    {
        "the line of the test": ("fails", '>       assert found == {"a": 1}'),
        "explanation of the comparison": ("fails", "E         {'a': 2026} != {'a': 1}"),
        "error in the background": ("is_failed_by_its_fixture[a]", "KeyError: 'in the background'"),
        "deadlock": ("waits_for_nothing", "Stuck: nothing can run at 0.000 s"),
        "timeout": ("takes_too_long", "TimeoutError"),
        "an early fixture": ("asks_in_the_wrong_order", "fixture 'early' must be asynchronous, as 'env' is"),
        "a plain test": ("is_no_coroutine", "only an asynchronous test can use the asynchronous fixture 'task'"),
    },
)
def test_coroutine_test_fails_with_a_reason(output: str, name: str, line: str) -> None:
    report = output.partition(f" test_{name} _")[2].partition("\n____")[0]
    assert line in report


def test_fixtures_are_torn_down_in_the_loop_in_reverse_order(output: str) -> None:
    assert "notes ['a'] 3600.0" in output
    assert "notes ['b'] 3600.0" in output


def test_test_seed_is_the_seed_of_its_env(output: str) -> None:
    drawn = dict(line.split()[1:] for line in output.splitlines() if line.startswith("seed "))
    assert len(set(drawn.values())) == 2
