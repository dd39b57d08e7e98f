"""One request as a record, whether kube-controller-manager v1.36.2 sent it (``data``) or ours (``audit``).

Feeds ``canonical``, which makes two records comparable.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

DATA = Path(__file__).parent / "data"

HASH = "6fffd974d5"
"""The pod template hash behind HASH1 (of 05e and 11)."""


class Record(msgspec.Struct, rename="camel", kw_only=True):
    """A request and how it was answered. See ``data/README.md`` for the fields."""

    t: float
    user: str
    verb: str
    group: str = ""
    resource: str
    namespace: str = ""
    name: str = ""
    content_type: str = ""
    accept: str = ""
    agent: str = ""
    query: dict[str, str] = {}
    body: Any = None
    code: int = 0
    reason: str = ""
    message: str = ""
    process: str = ""

    began: int = 0
    """For our records: the client's counters at the request and the response (see ``audit.Traced``)."""
    ended: int = 0

    @property
    def is_read(self) -> bool:
        """Whether it is a read."""
        return self.verb in {"get", "list", "watch"}

    @property
    def is_status(self) -> bool:
        """Whether it writes a status."""
        return self.resource.endswith("/status")

    @property
    def is_event(self) -> bool:
        """Whether it writes an Event."""
        return self.resource == "events" and not self.is_read and self.verb != "deletecollection"

    @property
    def status(self) -> dict[str, Any]:
        """The status in the body."""
        result: dict[str, Any] = self.body["status"]
        return result

    def __str__(self) -> str:
        return f"{self.t:.3f} {self.user} {self.verb} {self.resource} {self.namespace}/{self.name} {self.code}"


_line = msgspec.json.Decoder(Record)


def recorded(scenario: str, hashes: Sequence[str] = (HASH,)) -> list[Record]:
    """The recorded requests, with the placeholders HASH1, HASH2 … replaced by hashes."""
    text = (DATA / f"{scenario}.jsonl").read_bytes()
    for number, revision in enumerate(hashes, 1):
        text = re.sub(rb"HASH%d\b" % number, revision.encode(), text)
    return [_line.decode(line) for line in text.splitlines()]
