"""A data directory keeps its nodes, and ``--nodes`` changes their number."""

from pathlib import Path

import pytest
from tests.programs import pilothouse, run_pilothouse
from tests.tables import cases

from pilothouse.cli import up
from pilothouse.cli.program import UserError
from pilothouse.cli.restored import restored_cluster
from pilothouse.cli.stored_nodes import StoredNodes, is_stored, stored_nodes, write_nodes


@cases(
    "given, nodes, surplus",
    {
        "as before": ([], StoredNodes("n-", 3), ()),
        "more": (["--nodes=4"], StoredNodes("n-", 4), ()),
        "fewer": (["-n", "1"], StoredNodes("n-", 1), ("n-1", "n-2")),
        "none": (["--nodes=0"], StoredNodes("n-", 0), ("n-0", "n-1", "n-2")),
        "other names": (["--node-prefix=m-"], StoredNodes("m-", 3), ("n-0", "n-1", "n-2")),
    },
)
def test_flags_change_the_stored_nodes(
    tmp_path: Path, given: list[str], nodes: StoredNodes, surplus: tuple[str, ...]
) -> None:
    def start(*words: str) -> tuple[StoredNodes | None, tuple[str, ...]]:
        parsed, _restored = restored_cluster(up.flag_set("up").parse([f"--data-dir={tmp_path}", *words]))
        removed = tuple(write_nodes(parsed))
        return StoredNodes(parsed["node-prefix"], parsed["nodes"]), removed

    assert start("--nodes=3", "--node-prefix=n-") == (StoredNodes("n-", 3), ())
    assert start(*given) == (nodes, surplus)
    assert start() == (nodes, surplus), "the last start has ended before it has deleted them"


def test_thousands_of_nodes_are_compared_in_linear_time(tmp_path: Path) -> None:
    parsed = up.flag_set("up").parse([f"--data-dir={tmp_path}", "--nodes=50000"])
    write_nodes(parsed)
    assert write_nodes(parsed) == (), "with a set for each node it takes minutes"


@cases(
    "flags, stored",
    {
        "a data directory": (["--data-dir=d"], True),
        "in memory": ([], False),
        "an etcd, whose nodes other servers may simulate": (
            ["--data-dir=d", "--etcd-servers=http://127.0.0.1:2379"],
            False,
        ),
    },
)
def test_where_nodes_are_stored(flags: list[str], stored: bool) -> None:
    assert is_stored(up.flag_set("up").parse(flags)) == stored


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text("{")
    with pytest.raises(UserError, match=r"nodes\.json can't be read: "):
        stored_nodes(str(tmp_path))


def test_a_record_that_cannot_be_opened(tmp_path: Path) -> None:
    """It is not that of a new directory: the nodes of before would stay without being simulated."""
    (tmp_path / "nodes.json").mkdir()
    with pytest.raises(UserError, match=r"nodes\.json can't be read: Is a directory; without it"):
        stored_nodes(str(tmp_path))


@pytest.mark.slow
def test_surplus_nodes_are_deleted(tmp_path: Path) -> None:
    def start(*words: str) -> list[str]:
        with pilothouse(tmp_path, "up", "--data-dir=d", "--port=0", "--kubeconfig=k", *words) as program:
            program.until("pilothouse is ready")
            listed = run_pilothouse(tmp_path, "get", "nodes", "-o", "name", "--kubeconfig=k").stdout.split()
            program.stop()
        return listed

    assert start("--nodes=2") == ["nodes/node-0", "nodes/node-1"]
    assert start("--nodes=1") == ["nodes/node-0"]
    assert start() == ["nodes/node-0"], "as many as before, not the default"
    assert start("--nodes=2", "--processes=2") == ["nodes/node-0", "nodes/node-1"]
    assert start("--processes=2") == ["nodes/node-0", "nodes/node-1"]
