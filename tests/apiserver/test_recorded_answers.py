"""Responses equal those of kube-apiserver v1.36.2: code, reason, message with every cause in order, and body.

``--recorded N`` or ``N-M`` plays these seeds, of either recording, and prints every exchange of a single one.
"""

import contextlib
import itertools
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.apiserver.recorded.player import Player
from tests.apiserver.recorded.recording import LONG, MORE_NEWER_KINDS, NEWER_KINDS, SHORT, scenarios
from tests.apiserver.recorded.rows import ROWS, table
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer

from pilothouse.env import Env
from pilothouse.storage import Store


@contextlib.contextmanager
def playing(directory: Path, store: Callable[[Env], Store] | None = None) -> Iterator[Player]:
    """A player of a fresh server."""
    with EmbeddedServer(directory, store) as embedded:
        context = ssl.create_default_context(cadata=embedded.authority.decode())
        player = Player("127.0.0.1", int(embedded.url.rpartition(":")[2]), context, ADMIN_TOKEN)
        try:
            yield player
        finally:
            player.close()


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    """A fresh server."""
    with playing(tmp_path) as player:
        yield player


def _play(player: Player, file: str, most: int | None = None) -> None:
    # In the recorded order, all to one server: lists over all namespaces contain objects of earlier scenarios.
    for scenario in itertools.islice(scenarios(file), most):
        player.play(scenario)
    assert not player.report.unexplained, str(player.report)


def test_recorded_requests_get_the_recorded_responses(player: Player) -> None:
    _play(player, SHORT)
    assert player.report.requests > 10_500


def test_recorded_requests_of_newer_kinds_get_the_recorded_responses(player: Player) -> None:
    _play(player, NEWER_KINDS)
    assert player.report.requests > 5_600


@pytest.mark.slow
@pytest.mark.real
def test_recorded_requests_get_the_same_responses_on_etcd(tmp_path: Path, soak: bool) -> None:
    """All of them with --soak, the first of them otherwise."""

    def opened(env: Env) -> Store:
        from tests.apiserver.shared_store.servers import open_store  # needs an extra

        return open_store(env, etcd, etcd.root())

    from tests.etcd import Etcd

    etcd = Etcd().start()  # in one that others use, old revisions may be compacted
    try:
        with playing(tmp_path, opened) as player:
            _play(player, SHORT, None if soak else 30)
            assert player.report.requests > (10_500 if soak else 300)
    finally:
        etcd.stop()


@pytest.mark.timeout(1800)
def test_long_recording(player: Player, soak: bool) -> None:
    if not soak:
        pytest.skip("the long recording is played with --soak")
    _play(player, LONG)
    assert player.report.requests > 30_000


@pytest.mark.timeout(1800)
def test_long_recording_of_newer_kinds(player: Player, soak: bool) -> None:
    if not soak:
        pytest.skip("the long recording is played with --soak")
    _play(player, MORE_NEWER_KINDS)
    assert player.report.requests > 19_000


def test_chosen_seeds(player: Player, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]) -> None:
    chosen: str = pytestconfig.getoption("--recorded")
    if not chosen:
        pytest.skip("plays what --recorded names")
    first, many, last = chosen.partition("-")
    wanted = range(int(first), int(last or first) + 1)
    with capsys.disabled():
        for file in (SHORT, LONG, NEWER_KINDS, MORE_NEWER_KINDS):
            for scenario in scenarios(file):
                if scenario.seed in wanted:
                    player.play(scenario, verbose=not many)
        print(f"\n{player.report}")
    assert not player.report.unexplained


def test_documentation_shows_the_differences() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert table() in text


def test_number_of_intended_differences_is_bounded() -> None:
    assert len(ROWS) <= 10
    assert len({row.about for row in ROWS}) == len(ROWS)
