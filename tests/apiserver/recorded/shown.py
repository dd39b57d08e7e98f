"""Go values and diffs in rejections that our server formats as kube-apiserver did."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.apiserver.recorded.own import Translation
from tests.apiserver.recorded.recording import Answer, Exchange

Json = Any
_VALUE = re.compile(r"(Invalid|Unsupported|Duplicate) value: (\{|\[|null)|Not found: (\{|\[|null)")
_DIFF = re.compile(r"^@@ -\S+ \+\S+ @@$", re.M)


def shown(exchange: Exchange, actual: Answer, translation: Translation) -> Iterator[tuple[str, bool]]:
    """For each struct, list, map or diff in the causes of a recorded rejection: its kind, and whether our response has
    it."""
    answered = Counter(translation.comparable(cause) for cause in _causes(actual.body))
    for cause in _causes(exchange.answer.body):
        kind = "diffs" if _DIFF.search(cause) else "values" if _VALUE.search(cause) else ""
        if kind:
            wanted = translation.comparable(translation.text(cause))
            yield kind, answered[wanted] > 0
            answered[wanted] -= 1


def _causes(body: Json) -> list[str]:
    details = body.get("details") if isinstance(body, dict) else None
    causes = (details or {}).get("causes") or ()
    return [f"{cause.get('field')}: {cause.get('message')}" for cause in causes]
