"""The operator bench: counted requests, and both operators with two Websites."""

from collections import Counter

import pytest
from bench.operator import Site, SiteCondition, SiteStatus, is_ready, measure, own_requests

from bench import operator


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (SiteCondition(type="Ready", status="True", observed_generation=2), True),
        (SiteCondition(type="Ready", status="True", observed_generation=1), False),
        (SiteCondition(type="Ready", status="False", observed_generation=2), False),
        (SiteCondition(type="Other", status="True", observed_generation=2), False),
    ],
)
def test_website_readiness(condition: SiteCondition, expected: bool) -> None:
    assert is_ready(Site(status=SiteStatus(conditions=(condition,))), 2) is expected


def test_requests_of_the_operator() -> None:
    counts = Counter(
        {
            "APPLY configmaps 201": 1,
            "PATCH websites/status 409": 2,
            "PUT deployments/status 200": 40,
            "LIST websites 200": 80,
            "POST pods 201": 160,
            "GET  200": 320,
        }
    )
    assert own_requests(counts, events=4) == 7


@pytest.mark.slow
@pytest.mark.parametrize("side", ["pilothouse", "kopf"])
def test_both_operators_have_the_same_result(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "_START_SECONDS", 3.0)
    result = measure(side, 2, 1.0)
    # The finalizer, three objects, the status at first and in the end, and an event; the programs may merge some.
    assert 10 <= result["to ready, requests"] <= 20
    assert 2 <= result["one change of all, requests"] <= 8
    assert result["1 s at rest, requests"] == 0
    assert result["peak memory MB"] > 10


def test_missing_kopf_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert operator.figures() == []
    assert "kopf is not installed" in capsys.readouterr().err
