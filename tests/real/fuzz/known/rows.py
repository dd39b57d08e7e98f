"""What a row of differences is, and the questions that rows ask of a difference."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.real.fuzz.comparing import ABSENT, Difference
from tests.real.fuzz.servers import Answer, Request


@dataclass(frozen=True)
class Seen:
    """A difference with all that was said around it."""

    difference: Difference
    resource: str
    request: Request
    theirs: Answer
    ours: Answer
    before: Any = None
    """The object as our server had it."""

    @property
    def path(self) -> str:
        return self.difference.path


Applies = Callable[[Seen], bool]


def never(_seen: Seen) -> bool:
    """For rows that are about something else."""
    return False


@dataclass(frozen=True)
class Row:
    """What differs about one subject."""

    about: str
    since: dict[str, str]
    """By release, what it changed."""
    applies: Applies = never
    """Whether a difference in code, reason, message or body is one of these."""
    causes: Applies = never
    """Whether a difference in the causes of a refusal (422), which both servers give, is one of these."""
    diverges: bool | Applies = False
    """Whether the two servers hold different objects from then on, which ends the story."""

    def ends(self, seen: Seen) -> bool:
        """Whether what was seen ends the story."""
        return self.diverges if isinstance(self.diverges, bool) else self.diverges(seen)


def matches(pattern: str, value: object) -> bool:
    """Whether it is a text in which the pattern is found."""
    return isinstance(value, str) and re.search(pattern, value) is not None


def anyone(*questions: Applies) -> Applies:
    """Whether one of them applies."""
    return lambda seen: any(question(seen) for question in questions)


def of(*resources: str, applies: Applies) -> Applies:
    """Only for these resources."""
    return lambda seen: seen.resource in resources and applies(seen)


def new(*fields: str) -> Applies:
    """These fields are only set by the newer release."""
    return lambda seen: seen.difference.theirs is ABSENT and any(seen.path.endswith("." + name) for name in fields)


def said(theirs: str, ours: str, where: str = "") -> Applies:
    """Texts, of messages or causes, that match these."""

    def applies(seen: Seen) -> bool:
        texts = [
            value[1] if isinstance(value, tuple) else value for value in (seen.difference.theirs, seen.difference.ours)
        ]
        return re.search(where, seen.path) is not None and matches(theirs, texts[0]) and matches(ours, texts[1])

    return applies


def cause(field: str, theirs: str = "", ours: str = "") -> Applies:
    """A cause about such a field, with such texts; "" is any, absent included."""

    def applies(seen: Seen) -> bool:
        if re.fullmatch(f"cause ({field})", seen.path) is None:
            return False
        return all(
            not wanted or (value is not ABSENT and re.search(wanted, str(value)) is not None)
            for wanted, value in ((theirs, seen.difference.theirs), (ours, seen.difference.ours))
        )

    return applies


def pointers(patch: object) -> str:
    """Where the operations of a JSON patch are made."""
    operations = patch if isinstance(patch, list) else []
    return " ".join(f"{each.get('path')} {each.get('from')}" for each in operations if isinstance(each, dict))


def our_causes(seen: Seen) -> list[dict[str, str]]:
    """What ours has causes about."""
    return list((seen.ours.body.get("details") or {}).get("causes") or ())
