"""Tells stories to two servers and collects where their answers differ."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.real.fuzz.bases import APIS, DEFINITIONS
from tests.real.fuzz.comparing import Comparison, Difference, wrote
from tests.real.fuzz.known import ROWS, explain
from tests.real.fuzz.known.rows import Row, Seen
from tests.real.fuzz.servers import Answer, Asked, Known, Request
from tests.real.fuzz.shared_schema import SharedSchema
from tests.real.fuzz.stories import Story

SETTLING = frozenset({DEFINITIONS, APIS})
"""What the API server itself has controllers for."""


@dataclass
class Exchange:
    """One request with both answers and what differs in them."""

    seed: int
    resource: str
    request: Request
    theirs: Answer
    ours: Answer
    before: Any = None
    """The object as our server had it."""
    differences: list[Difference] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether both granted it."""
        return self.theirs.accepted and self.ours.accepted


@dataclass
class Report:
    """What came of it."""

    requests: int = 0
    accepted: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    unexplained: list[Exchange] = field(default_factory=list)
    refused: int = 0
    """By both, for their fields."""
    told_otherwise: int = 0
    """Of these, those with other causes."""
    broken: list[Exchange] = field(default_factory=list)
    resources: Counter[str] = field(default_factory=Counter)

    def summary(self) -> str:
        """The figures."""
        return (
            f"{self.requests} requests about {len(self.resources)} kinds, {self.accepted} granted by both, "
            f"{self.refused} refused by both for their fields, {self.told_otherwise} of them with other causes; "
            f"{sum(self.rows.values())} differ as {len(self.rows)} of {len(ROWS)} rows say, "
            f"{len(self.unexplained) + len(self.broken)} unexplained"
        )

    def text(self) -> str:
        """For people."""
        lines = [self.summary()]
        for exchange in (*self.broken, *self.unexplained):
            lines.append(f"--fuzz-seed {exchange.seed} ({exchange.resource})\n    {exchange.ours.asked[:1500]}")
            lines += [f"    {difference}" for difference in exchange.differences]
        return "\n".join(lines)


class Teller:
    """Tells stories to a pair of servers."""

    def __init__(self, real: Asked, ours: Asked, shared: SharedSchema) -> None:
        self.real = real
        self.ours = ours
        self.shared = shared
        self.comparison = Comparison(shared)
        self.report = Report()

    def tell(self, seed: int, watch: Callable[[Exchange], None] | None = None) -> None:
        """One story, to its end or to the first answer that lets the two servers go different ways."""
        theirs, ours = Known(), Known()
        story = Story(seed, self.shared, theirs)
        report = self.report
        report.resources[story.info.group_resource] += 1
        for request in story.requests():
            answers = self.real.ask(request, theirs), self.ours.ask(request, ours)
            exchange = Exchange(seed, story.info.group_resource, request, *answers, ours.objects.get(request.name))
            exchange.differences = self.comparison.differences(*answers, (theirs, ours))
            if request.method in ("PUT", "PATCH") and exchange.accepted and ("dryRun", "All") not in request.query:
                written = wrote(answers[0], theirs), wrote(answers[1], ours)
                if written[0] != written[1]:
                    exchange.differences.append(Difference("written", *written))
            if request.method != "GET" and request.name in story.names and story.info.group_resource in SETTLING:
                then = self._settle(story, request, (theirs, ours))
                exchange.differences += [each for each in then if each not in exchange.differences]
            for _ in range(20):
                if not (exchange.differences and any(name == "resourceVersion" for name, _value in request.query)):
                    break
                # What comes from a cache may be a little old.
                time.sleep(0.05)
                exchange.theirs = self.real.ask(request, theirs)
                answers = exchange.theirs, answers[1]
                exchange.differences = self.comparison.differences(*answers, (theirs, ours))
            if watch is not None:
                watch(exchange)
            report.requests += 1
            report.accepted += exchange.accepted
            unexplained, rows, ends = _explained(exchange)
            report.rows.update([row.about for row in rows])
            report.refused += exchange.theirs.code == exchange.ours.code == 422
            report.told_otherwise += any(difference.is_cause for difference in exchange.differences)
            if answers[1].code == 0 or (answers[1].code >= 500 and answers[0].code < 500 and unexplained):
                report.broken.append(exchange)
            elif unexplained:
                exchange.differences = unexplained
                report.unexplained.append(exchange)
            if answers[0].accepted != answers[1].accepted or ends:
                return
            _learn(request, theirs, answers[0])
            _learn(request, ours, answers[1])

    def _settle(self, story: Story, request: Request, known: tuple[Known, Known]) -> list[Difference]:
        """Wait for what the servers make of an object on their own; what differs in it then."""
        name = request.name
        read = Request(method="GET", path=f"{story.collection}/{name}", name=name)
        answers = [_settled(server, read, known[at]) for at, server in enumerate((self.real, self.ours))]
        for at, answer in enumerate(answers):
            _learn(read, known[at], answer)
        return self.comparison.differences(answers[0], answers[1], known)


def _settled(server: Asked, read: Request, known: Known) -> Answer:
    seen: list[str] = []
    for _ in range(100):
        answer = server.ask(read, known)
        meta = answer.body.get("metadata") or {} if isinstance(answer.body, dict) else {}
        seen.append(meta.get("resourceVersion") or str(answer.code))
        has_been_looked_at = not answer.accepted or (answer.body.get("status") or {}).get("conditions")
        if has_been_looked_at and len(set(seen[-4:])) == 1 and len(seen) > 3:
            break
        time.sleep(0.03)
    return answer


def _learn(request: Request, known: Known, answer: Answer) -> None:
    if ("dryRun", "All") in request.query:
        return
    if request.method == "DELETE" or answer.code == 404:
        known.objects.pop(request.name, None)
        if not request.name:
            known.objects.clear()
        return
    known.learn(request.name, answer)


def _explained(exchange: Exchange) -> tuple[list[Difference], list[Row], bool]:
    """What no row explains, the rows of the rest, and whether that ends the story."""
    rows: list[Row] = []
    unexplained, ends = [], False
    for difference in exchange.differences:
        seen = Seen(difference, exchange.resource, exchange.request, exchange.theirs, exchange.ours, exchange.before)
        row = explain(seen)
        if row is None:
            unexplained.append(difference)
        else:
            if row not in rows:
                rows.append(row)
            ends = ends or row.ends(seen)
    return unexplained, rows, ends
