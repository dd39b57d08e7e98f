"""Generated requests, to the real kube-apiserver and to ours: both answer the same.

Each story (``fuzz.stories``) follows from its seed. What differs, a cause of a refusal too, must be one of the rows in
``fuzz.known``, which say since which release it is so. ``--fuzz-seed N`` tells one story again and prints every request
of it, and ``--fuzz-seed N-M`` tells many and prints what they found.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.real.fuzz.comparing import both_just_written
from tests.real.fuzz.known import ROWS, table
from tests.real.fuzz.known.rows import Row
from tests.real.fuzz.servers import Asked
from tests.real.fuzz.shared_schema import SharedSchema
from tests.real.fuzz.telling import Exchange, Report, Teller
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.litters

FEW, MANY = 500, 10_000


@pytest.fixture
def teller(real_cluster: RealCluster, tmp_path: Path) -> Iterator[Teller]:
    """Both servers, under one administrator."""
    shared = SharedSchema(real_cluster.request("GET", "/openapi/v2"))
    with EmbeddedServer(tmp_path) as embedded:
        trusted = ssl.create_default_context(cafile=str(real_cluster.ca_file))
        untrusted = ssl.create_default_context()
        untrusted.check_hostname = False
        untrusted.verify_mode = ssl.CERT_NONE
        real = Asked("127.0.0.1", real_cluster.port, trusted, real_cluster.admin_token)
        ours = Asked("127.0.0.1", int(embedded.url.rpartition(":")[2]), untrusted, ADMIN_TOKEN)
        try:
            yield Teller(real, ours, shared)
        finally:
            real.close()
            ours.close()


@pytest.mark.timeout(1800)
def test_generated_requests_get_the_same_answers(
    teller: Teller, soak: bool, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen: str = pytestconfig.getoption("--fuzz-seed")
    if chosen:
        first, many, last = chosen.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            with capsys.disabled():
                teller.tell(seed, None if many else _print)
        with capsys.disabled():
            print(f"\n{teller.report.summary()}")
        _judge(teller.report)
        return
    seed = 1
    while teller.report.requests < (MANY if soak else FEW):
        teller.tell(seed)
        seed += 1
    report = teller.report
    with capsys.disabled():
        print(f"\n{report.summary()}")
    _judge(report)
    assert report.accepted * 2 >= report.requests, "at least half of the requests are granted by both"


def _judge(report: Report) -> None:
    assert not report.broken, report.text()
    assert not report.unexplained, report.text()


def _print(exchange: Exchange) -> None:
    print(f"\n{exchange.theirs.code} {exchange.ours.code} {exchange.ours.asked}")
    for difference in exchange.differences:
        print(f"    {difference}")


def test_the_page_shows_the_rows() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert table() in text


def test_the_rows_are_few_and_told_apart() -> None:
    assert len(ROWS) <= 40
    assert len({row.about for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.about)
def test_a_row_names_releases_after_the_one_beside(row: Row) -> None:
    releases = [int(release.removeprefix("v1.")) for release in row.since]
    assert releases == sorted(releases)
    assert all(20 < release <= 36 for release in releases)


def test_only_times_of_now_may_be_a_little_apart() -> None:
    def text(seconds: int) -> str:
        return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    assert both_just_written(text(0), text(1))
    assert not both_just_written(text(0), text(30))
    assert not both_just_written("2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z")
    assert not both_just_written("2026-01-02T03:04:05Z", text(0))
    assert not both_just_written(None, text(0))
