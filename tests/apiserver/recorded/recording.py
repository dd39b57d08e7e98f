"""Reads the recordings: scenarios of requests with the responses of kube-apiserver v1.36.2."""

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
NEWER_KINDS = "newer-kinds-v1.36.2.jsonl.xz"
"""433 scenarios of the kinds that the others lack."""
MORE_NEWER_KINDS = "more-newer-kinds-v1.36.2.jsonl.xz"
"""1,468 more, for long runs."""
PARTIAL = {
    kind: f"application/json;as={kind};g=meta.k8s.io;v=v1"
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
}
"""Media types that were requested for responses of these kinds."""


@dataclass(frozen=True)
class Answer:
    """A response. ``body`` is text if it is not JSON."""

    code: int
    body: Json

    @property
    def accepted(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.code < 300

    @classmethod
    def read(cls, code: int, content: bytes) -> Self:
        """Decode a response."""
        try:
            return cls(code, json.loads(content))
        except ValueError:
            return cls(code, content.decode(errors="replace"))


@dataclass(frozen=True)
class Exchange:
    """One recorded request with its response.

    What it asked to get (``Accept``) was not recorded and follows from the answer.
    """

    method: str
    path: str
    """Without the query, decoded."""
    target: str
    """The target of the request line."""
    content_type: str
    text: str
    answer: Answer

    @classmethod
    def parse(cls, exchange_text: str, code: int, body: Json) -> Self:
        """Parse the text of a recording: ``METHOD TARGET TYPE BODY``."""
        method, target, content_type, text = exchange_text.split(" ", 3)
        if isinstance(body, dict):
            _without_marks_of_the_build(body)
        return cls(method, unquote(target.partition("?")[0]), target, content_type, text, Answer(code, body))

    @property
    def query(self) -> list[tuple[str, str]]:
        """The decoded query parameters, in order."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    @property
    def accept(self) -> str:
        """The Accept header."""
        if self.answer.code == 406:
            return "text/html"
        body = self.answer.body
        kind = body.get("kind") if isinstance(body, dict) else None
        return PARTIAL.get(str(kind), "application/json")

    @property
    def generate_name(self) -> str:
        """``generateName``, or ""."""
        if self.method != "POST" or "generateName" not in self.text:
            return ""
        body = json.loads(self.text)
        meta = body.get("metadata") if isinstance(body, dict) else None
        prefix = meta.get("generateName") if isinstance(meta, dict) else None
        return prefix if isinstance(prefix, str) else ""

    @property
    def dry_run(self) -> bool:
        """Whether it is a dry run."""
        return ("dryRun", "All") in self.query


@dataclass(frozen=True)
class Scenario:
    """A sequence of requests for objects of one kind."""

    seed: int
    exchanges: tuple[Exchange, ...]


def _without_marks_of_the_build(body: Json) -> None:
    """Remove what depends on the build of the recorded server: it reports source files without their module, and has
    one additional role."""
    message = body.get("message")
    if isinstance(message, str) and 'in scheme "pkg/api/' in message:
        body["message"] = message.replace('in scheme "pkg/api/', 'in scheme "k8s.io/kubernetes/pkg/api/')
    if body.get("kind") == "SelfSubjectRulesReview":
        rules = body["status"]["nonResourceRules"]
        body["status"]["nonResourceRules"] = [
            rule for rule in rules if rule["nonResourceURLs"] != ["/.well-known", "/.well-known/*"]
        ]


def scenarios(file: str = SHORT) -> Iterator[Scenario]:
    """All scenarios of a recording, in order."""
    with lzma.open(DATA / file, "rt", encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            pairs = zip(document["asked"], document["answers"], strict=True)
            yield Scenario(document["seed"], tuple(Exchange.parse(exchange, *answer) for exchange, answer in pairs))
