"""Sends recorded scenarios to our server and collects responses that differ from kube-apiserver's."""

import contextlib
import http.client
import re
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.apiserver.recorded.comparing import Difference, differences
from tests.apiserver.recorded.own import Translation
from tests.apiserver.recorded.recording import Answer, Exchange, Scenario
from tests.apiserver.recorded.rows import Row, explain
from tests.apiserver.recorded.shown import shown

Json = Any
_PLACE = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)(/namespaces/[^/]+(?=/[^/]+))?/[^/]+(/[^/]+)?")
_SETTLING = ("/apis/apiextensions.k8s.io/v1/", "/apis/apiregistration.k8s.io/v1/")
"""Resources with controllers in the API server: they were read until unchanged."""


@dataclass(frozen=True)
class Found:
    """One request with a different response, and the rows that explain it."""

    seed: int
    exchange: Exchange
    actual: Answer
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        exchange = self.exchange
        asked = f"{exchange.method} {exchange.target} {exchange.content_type} {exchange.text[:1500]}"
        lines = [f"seed {self.seed}: {exchange.answer.code} {self.actual.code} {asked}"]
        return "\n    ".join([*lines, *map(str, self.differences)])


@dataclass
class Report:
    """The result of the run."""

    requests: int = 0
    granted: int = 0
    refused: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    unexplained: list[Found] = field(default_factory=list)
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Values and diffs in recorded rejections, and whether our response has them."""

    def summary(self) -> str:
        """A summary of the result."""
        return (
            f"{self.requests} requests, {self.granted} granted by both, {self.refused} refused by both, "
            f"{sum(self.rows.values())} differ as {len(self.rows)} rows say, {len(self.unexplained)} unexplained; "
            + ", ".join(
                f"{self.counts[kind, True]} of {self.counts[kind, True] + self.counts[kind, False]} {kind} as recorded"
                for kind in ("values", "diffs")
            )
        )

    def __str__(self) -> str:
        return "\n".join([self.summary(), *map(str, self.unexplained)])


class Player:
    """Sends scenarios to one server, as its administrator."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, token: str) -> None:
        self._connection = http.client.HTTPSConnection(host, port, timeout=30, context=context)
        self._token = token
        self.report = Report()

    def close(self) -> None:
        """Close the connections."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def play(self, scenario: Scenario, *, verbose: bool = False) -> None:
        """Play one scenario until its end or the first request that only one server rejects."""
        translation = Translation()
        revisions: dict[str, tuple[str, str]] = {}
        for exchanges in _steps(scenario):
            exchange = exchanges[-1]
            place = _place(exchange)
            settles = len(exchanges) > 1 and exchange.target.startswith(_SETTLING)
            actual = (self._settled if settles else self._send)(exchange, place, translation)
            result = differences(exchange, _object_path(place, exchange.answer), actual, translation)
            result = [item for item in result if not _is_of_the_second(exchange, item)]
            written = _written(exchange, actual, place, revisions)
            if not translation.is_of_split_second(place, exchange.text):
                result += written
            self.report.counts.update(shown(exchange, actual, translation))
            if verbose:
                print(Found(scenario.seed, exchange, actual, tuple(result)))
            if self._count(scenario.seed, exchange, actual, result):
                return

    def _count(self, seed: int, exchange: Exchange, actual: Answer, differences: list[Difference]) -> bool:
        report = self.report
        report.requests += 1
        report.granted += exchange.answer.accepted and actual.accepted
        report.refused += not exchange.answer.accepted and not actual.accepted
        rows: dict[str, Row] = {}
        remaining = []
        for difference in differences:
            row = explain(difference, exchange, actual)
            if row is None:
                remaining.append(difference)
            else:
                rows[row.about] = row
        report.rows.update(list(rows))
        if remaining:
            report.unexplained.append(Found(seed, exchange, actual, tuple(remaining)))
        return exchange.answer.accepted != actual.accepted

    def _send(self, exchange: Exchange, place: str, translation: Translation) -> Answer:
        target = translation.target(place, exchange.target)
        text = translation.body(place, exchange.text)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": exchange.accept, "User-Agent": "fuzz/1"}
        if text:
            headers["Content-Type"] = exchange.content_type
        self._connection.request(exchange.method, target, text.encode() or None, headers)
        answer = self._connection.getresponse()
        return Answer.read(answer.status, answer.read())

    def _settled(self, exchange: Exchange, place: str, translation: Translation) -> Answer:
        """Our server's response once the object's conditions are stable."""
        observed: list[str] = []
        while True:
            answer = self._send(exchange, place, translation)
            body = answer.body if isinstance(answer.body, dict) else {}
            observed.append((body.get("metadata") or {}).get("resourceVersion") or str(answer.code))
            has_conditions = not answer.accepted or (body.get("status") or {}).get("conditions")
            if (has_conditions and len(observed) > 3 and len(set(observed[-4:])) == 1) or len(observed) > 100:
                return answer
            time.sleep(0.02)


def _steps(scenario: Scenario) -> Iterator[list[Exchange]]:
    """The requests; repeated ones form one step: reads were repeated until the server's controllers or cache had caught
    up."""
    key = lambda exchange: (exchange.method, exchange.target, exchange.text)  # noqa: E731
    for (method, _target, _text), group in groupby(scenario.exchanges, key):
        exchanges = list(group)
        if method == "GET":
            yield exchanges
        else:
            yield from ([exchange] for exchange in exchanges)


def _place(exchange: Exchange) -> str:
    """The path of the request's object without subresource, or of the collection."""
    match = _PLACE.match(exchange.path)
    return match[0] if match else exchange.path


def _object_path(place: str, answer: Answer) -> str:
    """The path of the object in a response: needed for creates."""
    body = answer.body
    if isinstance(body, dict) and "items" not in body and answer.code == 201:
        name = (body.get("metadata") or {}).get("name")
        if name and not place.endswith(f"/{name}"):
            return f"{place}/{name}"
    return place


def _is_of_the_second(exchange: Exchange, difference: Difference) -> bool:
    """Whether it is only about who owns the time of a condition that the server sets: one that it sets again within
    the same second is no change."""
    is_owner_of_condition = exchange.target.startswith(_SETTLING) and ".managedFields." in difference.path
    return is_owner_of_condition and difference.path.endswith('.k:{"type":"Terminating"}.f:lastTransitionTime')


def _written(exchange: Exchange, actual: Answer, place: str, revisions: dict[str, tuple[str, str]]) -> list[Difference]:
    """Whether one server stored a write that was a no-op for the other."""
    expected = exchange.answer
    if not (
        expected.accepted and actual.accepted and isinstance(expected.body, dict) and isinstance(actual.body, dict)
    ):
        return []
    metas = [body.get("metadata") or {} for body in (expected.body, actual.body)]
    now = tuple(str(meta.get("resourceVersion", "")) for meta in metas)
    if exchange.dry_run or "items" in expected.body or not all(now) or expected.body.get("kind") == "Scale":
        return []
    path = _object_path(place, expected)
    before = revisions.get(path)
    revisions[path] = (now[0], now[1])
    if exchange.method not in ("PUT", "PATCH") or before is None:
        return []
    wrote = [one != other for one, other in zip(before, now, strict=True)]
    return [] if wrote[0] == wrote[1] else [Difference("written", *wrote)]
