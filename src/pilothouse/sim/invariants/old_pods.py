"""Processes that started with a stale list of pods: they may act once on each stale pod."""

from typing import TYPE_CHECKING

from pilothouse.client.interceptor import Answered, Observation, Opened

if TYPE_CHECKING:
    from pilothouse.sim.process import Process


class OldPods:
    """The processes whose first list of pods came from a stale replica.

    ``newest_change`` is the revision of the last write of a pod; the caller updates it.
    """

    def __init__(self) -> None:
        self.newest_change = 0
        self._numbers: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def observed(self, process: "Process", seen: Observation) -> None:
        replica = process.wire.replica
        if replica is None or not isinstance(seen, Opened | Answered) or seen.call.resource != "pods":
            return
        first = seen.call.verb == "list" or (seen.call.verb == "watch" and "sendInitialEvents" in seen.request.target)
        if first and "resourceVersion=0" in seen.request.target and replica.revision < self.newest_change:
            self._numbers[process.number] = None
