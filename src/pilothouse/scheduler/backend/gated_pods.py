"""Pods that PreEnqueue keeps out of the queue, by the resource claims that they wait for."""

from collections.abc import Iterable


class GatedPods:
    """Keys of pods, in the order in which they were put."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[str, ...]] = {}
        self._pods: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, pod: str) -> bool:
        return pod in self._claims

    def put(self, pod: str, claims: Iterable[str]) -> None:
        """Gate a pod that refers to these claims."""
        self.drop(pod)
        self._claims[pod] = tuple(claims)
        for claim in self._claims[pod]:
            self._pods.setdefault(claim, {})[pod] = None

    def drop(self, pod: str) -> None:
        """The pod is not gated any more, if it was."""
        for claim in self._claims.pop(pod, ()):
            pods = self._pods.get(claim, {})
            pods.pop(pod, None)
            if not pods:
                self._pods.pop(claim, None)

    def pods(self, claim: str | None = None) -> list[str]:
        """Those that refer to a claim, or all."""
        return list(self._claims if claim is None else self._pods.get(claim, ()))
