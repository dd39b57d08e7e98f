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

    def observed(self, process: "Process", observation: Observation) -> None:
        replica = process.wire.replica
        if replica is None or not isinstance(observation, Opened | Answered) or observation.call.resource != "pods":
            return
        is_initial = observation.call.verb == "list" or (
            observation.call.verb == "watch" and "sendInitialEvents" in observation.request.target
        )
        if is_initial and "resourceVersion=0" in observation.request.target and replica.revision < self.newest_change:
            self._numbers[process.number] = None
