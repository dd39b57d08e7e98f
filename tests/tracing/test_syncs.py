"""Parents and links of sync spans: events, schedules, retries."""

import asyncio
from collections.abc import Awaitable, Callable

from opentelemetry import trace
from tests.tables import cases
from tests.tracing.spans import Spans, id_of, trace_of

from pilothouse.api.meta import ObjectMeta
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.causes import SYNC
from pilothouse.runtime.controller import Requeue, RetryLater, WorkerPool
from pilothouse.runtime.dispatch import DISPATCH
from pilothouse.runtime.workqueue import WorkQueue
from pilothouse.tracing.commits import MAX_COMMITS, Commits
from pilothouse.tracing.syncs import LONGEST_DELAY

Reconcile = Callable[[str], Awaitable[Requeue | None]]


class Controller:
    """One worker, and the commits that its events are of."""

    def __init__(self, env: Env, reconcile: Reconcile) -> None:
        self.spans = Spans(env)
        self.queue: WorkQueue[str] = WorkQueue(self.spans.env, "things")
        self.pool = WorkerPool("things", self.queue, reconcile, component="thing-controller")

    def commit(self, version: str) -> trace.Span:
        """The request that wrote this version."""
        tracing = self.spans.env.tracing
        span: trace.Span = tracing.start(f"commit {version}")
        tracing.commits.remember(version, span.get_span_context(), tracing.now())
        tracing.end(span)
        return span

    def deliver(self, version: str, key: str = "default/a", type_: str = "MODIFIED") -> None:
        DISPATCH.begin(type_, "things", ObjectMeta(name="a", namespace="default", resource_version=version))
        self.queue.add(key)
        DISPATCH.end()

    @property
    def syncs(self) -> list[list[str]]:
        """The names of each sync's chain."""
        return [[item.name for item in self.spans.chain(sync)] for sync in self.spans.named("thing-controller sync")]

    async def run(self, seconds: float = 1.0) -> None:
        async with TaskGroup("test") as group:
            group.start(self.pool.run(), name="pool")
            await asyncio.sleep(seconds)
            group.cancel()


async def nothing(_key: str) -> None:
    """Finds nothing to do."""


async def test_the_first_event_is_the_parent_and_the_others_are_links(env: Env) -> None:
    controller = Controller(env, nothing)
    commits = [controller.commit(version) for version in ("5", "6", "7")]
    for version in ("5", "6", "7", "7"):
        controller.deliver(version)
    await asyncio.sleep(2)
    await controller.run()
    (sync,) = controller.spans.named("thing-controller sync")
    assert controller.syncs == [["commit 5", "watch things", "thing-controller sync"]]
    assert [link.context.span_id for link in sync.links] == [
        commit.get_span_context().span_id for commit in commits[1:]
    ]
    assert (sync.attributes or {})["queue_latency_seconds"] == 2.0
    (watch,) = controller.spans.named("watch things")
    assert dict(watch.attributes or {}) == {
        "type": "MODIFIED",
        "resource": "things",
        "namespace": "default",
        "name": "a",
        "resource_version": "5",
    }


async def test_sync_without_known_cause_starts_a_trace(env: Env) -> None:
    controller = Controller(env, nothing)
    controller.deliver("5")
    controller.queue.add("default/b")
    await controller.run()
    assert controller.syncs == [["thing-controller sync"], ["thing-controller sync"]]


@cases("seconds, joins", {"soon": (59.0, True), "after the trace expired": (61.0, False)})
async def test_listed_object_belongs_to_a_recent_commit(env: Env, seconds: float, joins: bool) -> None:
    controller = Controller(env, nothing)
    controller.commit("5")
    await asyncio.sleep(seconds)
    controller.deliver("5", type_=SYNC)
    await controller.run()
    assert (controller.syncs[0][0] == "commit 5") is joins


async def test_scheduled_sync_continues_the_trace(env: Env) -> None:
    async def again(_key: str) -> Requeue:
        return Requeue(25.0)

    controller = Controller(env, again)
    controller.commit("5")
    controller.deliver("5")
    await controller.run(80.0)
    first = ["commit 5", "watch things", "thing-controller sync"]
    again_and_again = [first, [*first, "thing-controller sync"], [*first, *(["thing-controller sync"] * 2)]]
    assert controller.syncs == [*again_and_again, ["thing-controller sync"]], "not forever"
    syncs = controller.spans.named("thing-controller sync")
    assert [link.context.span_id for link in syncs[3].links] == [id_of(syncs[2])]
    assert LONGEST_DELAY == 60e9
    assert (syncs[0].attributes or {})["requeue_after_seconds"] == 25.0


async def test_retry_belongs_to_the_event_and_has_the_error(env: Env) -> None:
    attempts: list[str] = []

    async def fails_once(key: str) -> None:
        attempts.append(key)
        if len(attempts) == 1:
            raise RetryLater("the cache is behind")

    controller = Controller(env, fails_once)
    controller.commit("5")
    controller.deliver("5")
    await controller.run(5.0)
    assert controller.syncs == [
        ["commit 5", "watch things", "thing-controller sync"],
        ["commit 5", "thing-controller sync"],
    ]
    failed, done = controller.spans.named("thing-controller sync")
    assert (failed.status.is_ok, failed.status.description) == (False, "the cache is behind")
    assert done.status.is_unset


async def test_sync_span_is_the_current_span(env: Env) -> None:
    """Spans of an operator's own become children."""
    observed: list[int] = []

    async def sync(_key: str) -> None:
        async def below() -> None:
            observed.append(trace.get_current_span().get_span_context().span_id)

        await asyncio.create_task(below())

    controller = Controller(env, sync)
    controller.queue.add("default/a")
    await controller.run()
    assert observed == [id_of(controller.spans.named("thing-controller sync")[0])]
    assert not trace.get_current_span().get_span_context().is_valid


def test_commits_are_bounded() -> None:
    commits = Commits()
    context = trace.SpanContext(1, 2, is_remote=False)
    for version in range(MAX_COMMITS + 10):
        commits.remember(str(version), context, version)
    assert len(commits) == MAX_COMMITS
    assert commits.get("9") is None
    assert commits.get("10") is not None


async def test_syncs_of_two_traces_are_separate(env: Env) -> None:
    controller = Controller(env, nothing)
    for version, key in (("5", "default/a"), ("6", "default/b")):
        controller.commit(version)
        controller.deliver(version, key)
    await controller.run()
    assert len({trace_of(span) for span in controller.spans.named("thing-controller sync")}) == 2
