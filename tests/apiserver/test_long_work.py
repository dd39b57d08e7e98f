"""Large bodies are processed in a worker thread, small ones inline."""

from collections.abc import Callable
from typing import Any

from tests.apiserver.api import CONFIG_MAPS, JSON, JSON_PATCH, MERGE, STRATEGIC, Answer, Api, Object
from tests.tables import cases

from pilothouse.apiserver.long_work import LONG_BYTES

APPLY = "application/apply-patch+yaml"
SMALL: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
LARGE: Object = {**SMALL, "data": {"a": "b" * LONG_BYTES}}
YAML = b"metadata: {name: c}\ndata:\n" + b"".join(b"  key%d: value\n" % number for number in range(3000))


class Worker:
    """Computes immediately, and records the calls."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_full = False

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.names.append(getattr(function, "func", function).__name__)
        return function(*args, **kwargs)


async def write_with_worker(
    api: Api, method: str, body: Any, content_type: str, *, before: Object | None
) -> tuple[Answer, list[str]]:
    if before is not None:
        await api.create(CONFIG_MAPS, before)
    worker = Worker()
    api.server.core.long_work.get_worker = lambda: worker
    target = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/c?fieldManager=a"
    if content_type == APPLY:
        target += "&force=true"
    return await api.request(method, target, body, content_type), worker.names


@cases(
    "method, body, content_type, before, works",
    {
        "a small object": ("POST", SMALL, JSON, None, []),
        "a large object": ("POST", LARGE, JSON, None, ["read_object", "_complete", "_check"]),
        "YAML": ("POST", YAML, "application/yaml", None, ["read", "read_object", "_complete", "_check"]),
        "an update": ("PUT", LARGE, JSON, SMALL,
                     ["_reader", "read_object", "make", "complete", "_check"]),
        "a small patch of a large object": ("PATCH", {"data": {"a": "c"}}, MERGE, LARGE,
                     ["make", "complete", "_check"]),
        "a large patch": ("PATCH", {"data": LARGE["data"]}, STRATEGIC, SMALL,
                     ["patch_function", "make", "complete", "_check"]),
        "a large JSON patch": ("PATCH", [{"op": "replace", "path": "/data", "value": LARGE["data"]}], JSON_PATCH, SMALL,
                     ["patch_function", "make", "complete", "_check"]),
        "a large apply": ("PATCH", LARGE, APPLY, None,
                     ["read_config", "check_config", "apply", "_validate_merged", "_complete", "_check"]),
        "a small patch": ("PATCH", {"data": {"a": "c"}}, MERGE, SMALL, []),
    },
)  # fmt: skip
async def test_large_bodies_are_processed_by_the_worker(
    api: Api, method: str, body: Any, content_type: str, before: Object | None, works: list[str]
) -> None:
    answer, names = await write_with_worker(api, method, body, content_type, before=before)
    assert answer.status in (200, 201), answer.text[:300]
    assert names == works


async def test_full_worker_queue_returns_429(api: Api) -> None:
    worker = Worker()
    worker.is_full = True
    api.server.core.long_work.get_worker = lambda: worker
    rejected = await api.post(CONFIG_MAPS, LARGE)
    accepted = await api.post(CONFIG_MAPS, SMALL)
    assert (rejected.status, rejected.body["details"]["retryAfterSeconds"]) == (429, 1)
    assert accepted.status == 201
