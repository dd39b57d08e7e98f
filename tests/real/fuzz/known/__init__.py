"""What a kube-apiserver v1.20 answers otherwise than one of the release that we follow, and which release changed it.

``docs/conformance.md`` shows these rows, one per subject. A row has the changes of its subject by release, and the
questions that tell whether a difference that was seen is one of them.
"""

from tests.real.fuzz.known.kinds import KINDS
from tests.real.fuzz.known.ownership import OWNERSHIP
from tests.real.fuzz.known.requests import REQUESTS
from tests.real.fuzz.known.rows import Row, Seen
from tests.real.fuzz.known.words import WORDS

ROWS: tuple[Row, ...] = (*KINDS, *REQUESTS, *OWNERSHIP, *WORDS)


def table() -> str:
    """The rows as the page shows them."""
    lines = ["| about | what is otherwise |", "|---|---|"]
    lines += [f"| {row.about} | {'; '.join(f'{name}: {what}' for name, what in row.since.items())} |" for row in ROWS]
    return "\n".join(lines) + "\n"


def explain(seen: Seen) -> Row | None:
    """The row that a difference belongs to, or None."""
    applies = next((row for row in ROWS if row.applies(seen)), None)
    if applies is None and seen.difference.is_cause:
        return next((row for row in ROWS if row.causes(seen)), None)
    return applies
