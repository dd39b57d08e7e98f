"""Recordings for the tests of reports."""

from pilothouse.simulate.recording import (
    ACTION,
    FAULT,
    VIOLATION,
    Bound,
    Event,
    Mark,
    Node,
    Percentiles,
    Rates,
    Recording,
    Revision,
    Rollout,
    Steps,
    Workload,
    Writes,
)

HOSTILE = (
    "</title></style><script>window.pwned=1</script><img src=//example.com/x onerror=window.pwned=1>\u202e\x00\"'&"
)


def steps(*points: tuple[float, int]) -> Steps:
    """A number that becomes each value at its time."""
    values = [value for _at, value in points]
    return Steps([at for at, _value in points], values, values, values)


def zigzag(points: int = 600, seconds: float = 604_800.0, most: int = 1000) -> Steps:
    """As long as a series gets, and never the same twice."""
    width = seconds / points
    values = [(number * 7919) % most for number in range(points)]
    return Steps([number * width for number in range(points)], values, [0] * points, [most] * points)


def small(name: str = "small", text: str = "web") -> Recording:
    """Something of everything. ``text`` is what strangers have written."""
    workload = Workload(
        kind="Deployment",
        namespace=text,
        name=text,
        created=0.0,
        revisions=[
            Revision(name="a", number="1", image=text, pods=steps((0, 0), (1, 3), (60, 1), (70, 0))),
            Revision(name="b", number="2", image=f"{text}:2", pods=steps((50, 1), (70, 3))),
        ],
        desired=steps((0, 3)),
        ready=steps((0, 0), (5, 3), (60, 2), (75, 3)),
        unavailable=steps((0, 0), (60, 1), (75, 0)),
        pending=steps((0, 3), (2, 0)),
        bounds=[Bound(name=f"PodDisruptionBudget {text}", least=steps((0, 2)), seconds_below=15.0, most_below=1)],
        rollouts=[Rollout(revision="b", number="2", began=50.0, finished=75.0, fewest_ready=2, most_pods=4)],
        time_to_ready=Percentiles(count=6, p50=3.5, p95=9.0, p99=12.0, most=12.0),
        most_unavailable=1,
        pods_created=6,
        pods_deleted=3,
        deleted_by={text: 3},
    )
    return Recording(
        name=name,
        seed=7,
        variant=text,
        began="2026-01-01T00:00:00.000000Z",
        seconds=120.0,
        zero=10.0,
        failure=f"always {text}: it does not hold",
        digest="0123",
        workloads=[workload],
        nodes=[
            Node(name=f"{text}-0", zone=text, at=[0.0], states=["ready"]),
            Node(name=f"{text}-1", zone=text, at=[0.0, 20.0, 40.0], states=["ready", "unknown", "cordoned"]),
        ],
        node_states={"ready": steps((0, 2), (20, 1)), "unknown": steps((20, 1), (40, 0)), "cordoned": steps((40, 1))},
        requests=Rates(width=1.0, counts={f"{text} get": [1, 0, 5], "kubelet update": [0] * 100 + [3]}),
        queues={text: steps((0, 0), (50, 4), (51, 0))},
        events=[
            Event(
                first=1, last=60, type="Warning", reason=text, object=f"pod/{text}", message=text, count=4, objects=2
            ),
            Event(first=2, last=2, type="Normal", reason="Pulled", object="pod/a", message="b"),
        ],
        event_rates=Rates(width=1.0, counts={"Normal": [0, 0, 1], "Warning": [1, 3]}),
        marks=[
            Mark(at=20.0, kind=FAULT, text=f"node {text} silent"),
            Mark(at=50.0, kind=ACTION, text=f"set image {text}"),
            Mark(at=60.0, kind=VIOLATION, text=f"always {text}", why=f"└─ {text}"),
        ],
        writes=[Writes(client=text, resource="pods", created=6, modified=12, deleted=3)],
    )


def huge() -> Recording:
    """As large as a recording gets: every bound of the recorder is reached, all texts are as long as they may be."""
    long, series = "<" * 1000, zigzag()
    revisions = [Revision(name=str(n), number=str(n), image=long, pods=series) for n in range(12)]
    bounds = [Bound(name=f"{long}{n}", least=series, seconds_below=1.0, most_below=3) for n in range(8)]
    rollouts = [Rollout(revision=str(n % 12), began=float(n)) for n in range(50)]
    workloads = [
        Workload(
            kind="Deployment", namespace=long, name=long, created=0.0, revisions=revisions, bounds=bounds,
            desired=series, ready=series, unavailable=series, pending=series, terminating=series, failed=series,
            rollouts=rollouts, pods_created=1000, deleted_by=dict.fromkeys(map(str, range(12)), 5),
        )
        for _n in range(500)
    ]  # fmt: skip
    states = ["ready", "unknown"] * 100
    return Recording(
        name=long,
        seconds=604_800.0,
        failure=long,
        workloads=workloads,
        nodes=[Node(name=f"{long}{n}", at=[3000.0 * i for i in range(200)], states=states) for n in range(64)],
        node_states={"ready": series, "unknown": series},
        requests=Rates(width=2048.0, counts={f"{long}{n} get": [n + 1] * 300 for n in range(300)}),
        queues={f"{long}{n}": series for n in range(100)},
        events=[
            Event(first=1, last=9, type="Warning", reason=long, object=long, message=long[:400]) for _n in range(300)
        ],
        marks=[
            *(Mark(at=600.0 * n, kind=ACTION, text=long) for n in range(1000)),
            *(Mark(at=600.0 * n, kind=VIOLATION, text=long, why="<" * 20_000) for n in range(100)),
        ],
        writes=[Writes(client=long, resource=long, modified=1) for _n in range(300)],
    )
