"""Lists with undecodable objects."""

import json
import time

import pytest

from pilothouse.api.core import PODS
from pilothouse.client.decode import Page, decoders_of
from pilothouse.client.errors import UndecodableObject

DEEP = "[" * 20_000 + "]" * 20_000


def pod(name: str, more: str = "1") -> str:
    strings = json.dumps({"a": '"},]{[\\\\', "items": "[{"})
    return f'{{"metadata":{{"name":"{name}","namespace":"x","annotations":{strings}}},"deep":{more}}}'


def page(*pods: str) -> tuple[list[str], list[UndecodableObject], Page[object]]:
    missed: list[UndecodableObject] = []
    body = f'{{"kind":"PodList","metadata":{{"resourceVersion":"7","continue":"c"}},"items":[{",".join(pods)}]}}'
    result = decoders_of(PODS.view).page(PODS, body.encode(), keep_raw=True, on_undecodable=missed.append)
    return [entry.object.metadata.name for entry in result.items], missed, result  # type: ignore[return-value]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_too_deeply_nested_object_is_skipped(place: int) -> None:
    pods = [pod("one"), pod("two")]
    pods.insert(place, pod("bad", DEEP))
    names, missed, body = page(*pods)
    # Fields outside of the view are skipped, and may be nested as deeply as the decoder can skip.
    assert names in (["one", "two"], ["bad" if n == place else None for n in range(3)])
    assert len(missed) == 1
    assert (body.metadata.resource_version, body.metadata.continue_) == ("7", "c")
    assert [json.loads(entry.raw)["metadata"]["name"] for entry in body.items] == names


def test_undecodable_object_without_a_callback_is_an_error() -> None:
    with pytest.raises(UndecodableObject):
        decoders_of(PODS.view).one(pod("bad", DEEP).encode(), lambda: "pods x/bad")


def test_body_that_ends_within_a_string_takes_linear_time() -> None:
    body = f'{{"items":[{pod("bad", DEEP)}],"x":"' + '\\"' * 100_000
    started_at = time.process_time()
    with pytest.raises(UndecodableObject):
        decoders_of(PODS.view).page(PODS, body.encode(), keep_raw=True, on_undecodable=None)
    assert time.process_time() - started_at < 2.0
