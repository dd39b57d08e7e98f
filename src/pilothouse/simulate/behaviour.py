"""The behaviour of pods in a scenario: start times, image pulls, failures.

Each draw has its own random stream, named after the pod or node and the image: it does not depend on other events.
"""

import math
import random  # noqa: TID251  # the type of a stream
from collections.abc import Sequence

import msgspec

from pilothouse.env import Env
from pilothouse.machinery.labels import Selector, parse_selector
from pilothouse.nodes import Profile
from pilothouse.nodes.behaviour import Behaviour, Script, behaviour_of
from pilothouse.nodes.views import NodePod
from pilothouse.simulate.scenario.schema import PodRule, Spread

_P99 = 2.3263478740408408
"""The 99th percentile of the normal distribution, in standard deviations."""
_RUNS = 50
"""Maximum number of failures of one container; after that it keeps running."""


def drawn_seconds(rng: random.Random, spread: Spread) -> float:
    """Draw from the log-normal distribution with this median and 99th percentile."""
    if spread.p99 is None or not spread.median:
        return float(spread.median)
    deviation = math.log(spread.p99 / spread.median) / _P99
    return round(float(spread.median) * math.exp(rng.gauss(0.0, 1.0) * deviation), 3)


class PodBehaviour:
    """Applies the rules of a scenario to the behaviour of pods (``nodes.behaviour.DeriveBehaviour``)."""

    def __init__(self, env: Env, rules: Sequence[PodRule]) -> None:
        self._env = env
        self._rules: list[tuple[PodRule, Selector]] = [(rule, parse_selector(rule.selector)) for rule in rules]
        self._images: dict[tuple[str, str], float] = {}
        """By node and image: when the image is present, in loop time."""

    def __call__(self, pod: NodePod, profile: Profile) -> Behaviour:
        """The behaviour of a pod."""
        behaviour = behaviour_of(pod, profile)
        rule = self._rule(pod)
        if rule is None:
            return behaviour
        rng = random.Random(f"{self._env.random_streams.seed}/pods/{pod.metadata.uid}")
        start = behaviour.start_delay if rule.start is None else drawn_seconds(rng, rule.start)
        pulls = () if rule.image_pull is None else self._pull_seconds(pod, rule.image_pull)
        scripts = behaviour.scripts
        if rule.fail_every is not None:
            inits = len(pod.spec.init_containers)
            scripts = (*scripts[:inits], *(_failing(rng, rule, script) for script in scripts[inits:]))
        return msgspec.structs.replace(
            behaviour,
            start_delay=start + max(pulls, default=0.0),
            scripts=scripts,
            pull_seconds=_reported(pod, pulls, scripts) if profile.events is not False and any(pulls) else (),
        )

    def _rule(self, pod: NodePod) -> PodRule | None:
        for rule, selector in self._rules:
            if rule.namespace in ("", pod.metadata.namespace) and selector.matches(pod.metadata.labels):
                return rule
        return None

    def _pull_seconds(self, pod: NodePod, spread: Spread) -> tuple[float, ...]:
        """Seconds until the node has the image of each container; a node pulls several images in parallel."""
        now, node, remaining = self._env.monotonic(), pod.spec.node_name, []
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            key = (node, container.image)
            if key not in self._images:
                rng = random.Random(f"{self._env.random_streams.seed}/images/{node}/{container.image}")
                self._images[key] = now + drawn_seconds(rng, spread)
            remaining.append(max(0.0, self._images[key] - now))
        return tuple(remaining)


def _reported(pod: NodePod, seconds: Sequence[float], scripts: Sequence[Script]) -> tuple[float, ...]:
    """The pulls that events report: the first pull of each image, except for containers whose image can't be pulled."""
    images: set[str] = set()
    reported = []
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    for container, pulled, script in zip(containers, seconds, scripts, strict=True):
        is_first = container.image not in images and script.pull is None and not script.waiting
        reported.append(pulled if is_first else 0.0)
        images.add(container.image)
    return tuple(reported)


def _failing(rng: random.Random, rule: PodRule, script: Script) -> Script:
    assert rule.fail_every is not None, "the rule has a rate"
    rate = 1.0 / max(float(rule.fail_every), 1.0)
    seconds = tuple(max(1.0, round(rng.expovariate(rate), 3)) for _ in range(_RUNS))
    if any(not math.isinf(seconds) for seconds in script.run_seconds):
        return script  # the container terminates by itself
    return msgspec.structs.replace(script, run_seconds=(*seconds, math.inf), exit_codes=(rule.exit_code,))
