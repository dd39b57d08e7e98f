"""The remarks by resource; those under the empty name are for all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pilothouse.why.states.terminating import terminating
from pilothouse.why.view import Finding, View

Remark = Callable[[View], Awaitable[Finding | None]]

REMARKS: Mapping[str, Sequence[Remark]] = {
    "": (terminating,),
}
