"""Traces from a request to all syncs and writes that it causes, in one process and in virtual time."""

from opentelemetry.trace import SpanKind
from tests.plane.running import running
from tests.tables import cases
from tests.tracing.documents import DEPLOYMENT
from tests.tracing.spans import ALWAYS, Spans, id_of, shown, trace_of, wait_until_idle

from pilothouse.api import wire
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.env import Env, virtual
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

MERGE = {"content-type": "application/merge-patch+json", "user-agent": "kubectl"}
SCALE = wire.Request(
    "PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale", MERGE, b'{"spec":{"replicas":3}}'
)
STATUS = "PATCH /api/v1/namespaces/{:namespace}/pods/{:name}/status"


async def scaled(env: Env, rate: int | None = ALWAYS, *, whole: bool = False) -> Spans:
    """The spans of scaling a Deployment from one to three; ``whole``: also earlier ones."""
    spans = Spans(env, rate)
    plane = Plane(spans.env, MemoryStore(env), PlaneOptions(nodes=2))
    async with running(plane):
        await plane.client().create(DEPLOYMENTS.raw, DEPLOYMENT, "default")
        await wait_until_idle()
        if not whole:
            spans.clear()
        answer = await plane.server.transport("kubernetes-admin", ("system:masters",)).request(SCALE)
        assert answer.status == 200
        await wait_until_idle()
    return spans


async def test_scaling_a_deployment_is_one_trace_until_its_pods_run(env: Env) -> None:
    spans = await scaled(env)
    last = {}
    for span in spans.named(STATUS):
        last[span.attributes["url.path"]] = span  # type: ignore[index]
    assert len(last) == 2, "the pods that are new"
    scale, *_rest = spans.named("PATCH /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale")
    for span in last.values():
        chain = spans.chain(span)
        assert chain[0] is scale
        assert shown(chain) == [
            "apiserver: PATCH /apis/apps/v1/namespaces/{:namespace}/deployments/{:name}/scale",
            "apiserver: Patch",
            "apiserver: GuaranteedUpdate etcd3",
            "kube-controller-manager: watch deployments.apps",
            "kube-controller-manager: deployment-controller sync",
            "kube-controller-manager: HTTP PUT",
            "apiserver: PUT /apis/apps/v1/namespaces/{:namespace}/replicasets/{:name}",
            "apiserver: Update",
            "apiserver: GuaranteedUpdate etcd3",
            "kube-controller-manager: watch replicasets.apps",
            "kube-controller-manager: replicaset-controller sync",
            "kube-controller-manager: HTTP POST",
            "apiserver: POST /api/v1/namespaces/{:namespace}/pods",
            "apiserver: Create",
            "apiserver: Create etcd3",
            "kube-scheduler: watch pods",
            "kube-scheduler: Scheduling",
            "kube-scheduler: HTTP POST",
            "apiserver: POST /api/v1/namespaces/{:namespace}/pods/{:name}/binding",
            "apiserver: Create",
            "apiserver: GuaranteedUpdate etcd3",
            "kubelet: watch pods",
            "kubelet: syncPod",
            "kubelet: HTTP PATCH",
            "apiserver: PATCH /api/v1/namespaces/{:namespace}/pods/{:name}/status",
            "apiserver: Patch",
            "apiserver: GuaranteedUpdate etcd3",
            "kubelet: watch pods",
            "kubelet: syncPod",
            "kubelet: syncPod",  # the container has started, which the first one had waited for
            "kubelet: HTTP PATCH",
            "apiserver: PATCH /api/v1/namespaces/{:namespace}/pods/{:name}/status",
        ]


async def test_every_child_is_in_the_trace_of_its_parent(env: Env) -> None:
    spans = await scaled(env, whole=True)
    for span in spans.all:
        spans.chain(span)
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time, span.name


async def test_admission_is_a_part_of_the_handler(env: Env) -> None:
    spans = await scaled(env)
    create = spans.named("Create", resource="pods", subresource="")[0]
    children = [span.name for span in spans.all if span.parent is not None and span.parent.span_id == id_of(create)]
    assert children == ["Mutating admission", "Validating admission", "Create etcd3"]


async def test_sync_span_has_controller_key_and_queue_latency(env: Env) -> None:
    spans = await scaled(env)
    sync = spans.named("replicaset-controller sync")[0]
    attributes = sync.attributes
    assert attributes is not None
    assert attributes["controller"] == "replicaset-controller"
    assert str(attributes["key"]).startswith("default/web-")
    assert attributes["queue_latency_seconds"] == 0.0  # in virtual time
    write = spans.named("HTTP POST", controller="replicaset-controller")[0]
    assert write.kind is SpanKind.CLIENT
    assert write.attributes is not None
    assert "3 pods desired" in str(write.attributes["decision"])


async def test_further_events_of_a_key_are_links(env: Env) -> None:
    """Two pods of one trace change one ReplicaSet: one is the parent of its sync, the others are links."""
    spans = await scaled(env)
    syncs = spans.named("replicaset-controller sync")
    linked = [sync for sync in syncs if sync.links]
    assert linked
    for sync in linked:
        own = {link.context.span_id for link in sync.links}
        assert len(own) == len(sync.links), "each once"
        assert spans.chain(sync)[-3].context is not None
        assert id_of(spans.chain(sync)[-3]) not in own, "the parent is no link"


async def test_span_times_are_virtual(env: Env) -> None:
    began = env.now()
    spans = await scaled(env)
    ended = env.now()
    for span in spans.all:
        assert span.start_time is not None
        assert began.timestamp() * 1e9 - 1000 <= span.start_time <= ended.timestamp() * 1e9


def test_span_ids_are_reproducible() -> None:
    def ids(seed: int) -> list[tuple[int, int, str]]:
        async def main(env: Env) -> list[tuple[int, int, str]]:
            return [(trace_of(span), id_of(span), span.name) for span in (await scaled(env)).all]

        return virtual.run(main, seed=seed)

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)


@cases("rate, expected", {"unset": (None, False), "zero": (0, False), "sampled always": (ALWAYS, True)})
async def test_sampling_rate(env: Env, rate: int | None, expected: bool) -> None:
    assert bool((await scaled(env, rate)).all) is expected


async def test_sampled_traces_are_complete(env: Env) -> None:
    spans = await scaled(env, 300_000, whole=True)
    everything = await scaled(env, whole=True)
    assert 0 < len(spans.all) < 0.6 * len(everything.all)
    for span in spans.all:
        spans.chain(span)
