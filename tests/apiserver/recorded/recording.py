"""Reads the recordings: scenarios of requests with the answers of kube-apiserver v1.36.2."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

Json = Any
DATA = Path(__file__).parent / "data"
SHORT = "requests-v1.36.2.jsonl.xz"
"""760 scenarios."""
LONG = "more-requests-v1.36.2.jsonl.xz"
"""2,200 more, for long runs."""
PARTIAL = {
    kind: f"application/json;as={kind};g=meta.k8s.io;v=v1"
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
}
"""What was asked for where an answer is of one of these kinds."""


@dataclass(frozen=True)
class Answer:
    """What a server answered. ``body`` is text where it is not JSON."""

    code: int
    body: Json

    @property
    def accepted(self) -> bool:
        """Whether the request was granted."""
        return 200 <= self.code < 300

    @classmethod
    def read(cls, code: int, content: bytes) -> Self:
        """From what came over the wire."""
        try:
            return cls(code, json.loads(content))
        except ValueError:
            return cls(code, content.decode(errors="replace"))


@dataclass(frozen=True)
class Exchange:
    """One recorded request with its answer.

    What it asked to get (``Accept``) was not recorded and follows from the answer.
    """

    method: str
    path: str
    """Without the query, decoded."""
    target: str
    """As it stood in the request line."""
    content_type: str
    text: str
    answer: Answer

    @classmethod
    def parse(cls, asked: str, code: int, body: Json) -> Self:
        """From the text of a recording: ``METHOD TARGET TYPE BODY``."""
        method, target, content_type, text = asked.split(" ", 3)
        if isinstance(body, dict):
            _without_marks_of_the_build(body)
        return cls(method, unquote(target.partition("?")[0]), target, content_type, text, Answer(code, body))

    @property
    def query(self) -> list[tuple[str, str]]:
        """Keys and values, decoded, in their order."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    @property
    def accept(self) -> str:
        """The media types that it asked for."""
        if self.answer.code == 406:
            return "text/html"
        body = self.answer.body
        kind = body.get("kind") if isinstance(body, dict) else None
        return PARTIAL.get(str(kind), "application/json")

    @property
    def generate_name(self) -> str:
        """The prefix of the name that the server is to make, or ""."""
        if self.method != "POST" or "generateName" not in self.text:
            return ""
        body = json.loads(self.text)
        meta = body.get("metadata") if isinstance(body, dict) else None
        prefix = meta.get("generateName") if isinstance(meta, dict) else None
        return prefix if isinstance(prefix, str) else ""

    @property
    def dry_run(self) -> bool:
        """Whether nothing was to be stored."""
        return ("dryRun", "All") in self.query


@dataclass(frozen=True)
class Scenario:
    """Requests about objects of one kind, one after the other."""

    seed: int
    exchanges: tuple[Exchange, ...]


def _without_marks_of_the_build(body: Json) -> None:
    """Take out what follows from how the recorded server was built: it names source files without their module, and has
    one more role than upstream, for everybody."""
    message = body.get("message")
    if isinstance(message, str) and 'in scheme "pkg/api/' in message:
        body["message"] = message.replace('in scheme "pkg/api/', 'in scheme "k8s.io/kubernetes/pkg/api/')
    if body.get("kind") == "SelfSubjectRulesReview":
        rules = body["status"]["nonResourceRules"]
        body["status"]["nonResourceRules"] = [
            rule for rule in rules if rule["nonResourceURLs"] != ["/.well-known", "/.well-known/*"]
        ]


def scenarios(file: str = SHORT) -> Iterator[Scenario]:
    """Every scenario of a recording, in its order."""
    with lzma.open(DATA / file, "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            pairs = zip(found["asked"], found["answers"], strict=True)
            yield Scenario(found["seed"], tuple(Exchange.parse(asked, *answer) for asked, answer in pairs))
