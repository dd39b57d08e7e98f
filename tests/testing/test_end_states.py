"""The comparison of the final states of two runs."""

import json
from typing import Any

from tests.tables import cases

from pilothouse.storage import Record
from pilothouse.testing.end_states import EndState, described, differences, end_state

UID = "00000000-1111-4222-8333-444444444444"
OTHER = UID.replace("0", "5")


def state(*objects: dict[str, Any]) -> EndState:
    records = [
        Record(f"/configmaps/default/{obj['metadata']['name']}", json.dumps(obj).encode(), 1, 1) for obj in objects
    ]
    return end_state(records, ["/configmaps/"])


def config_map(name: str = "a", data: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", **meta}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


@cases(
    "expected, is_different, text",
    {
        "one additional": (
            [config_map()],
            [config_map(), config_map("b")],
            "configmaps default/b: 1, and without faults none",
        ),
        "deleted": ([config_map()], [], "configmaps default/a: none, and without faults 1"),
        "generated names": (
            [config_map("a-1", generateName="a-")],
            [config_map("a-2", generateName="a-"), config_map("a-3", generateName="a-")],
            "configmaps default/a-*: 2, and without faults 1",
        ),
        "different value": (
            [config_map(data={"k": "1"})],
            [config_map(data={"k": "2"})],
            "configmaps default/a: .data.k is '2', and without faults '1'",
        ),
        "a finalizer that was lost": (
            [config_map(finalizers=["x"])],
            [config_map()],
            "configmaps default/a: .metadata.finalizers.0 is not there, and without faults 'x'",
        ),
        "a value with a uid as its key": (
            [config_map(data={UID: "1", OTHER: "2"})],
            [config_map(data={UID: "1", OTHER: "3"})],
            "configmaps default/a: .data.UID (2) is '3', and without faults '2'",
        ),
        "additional object with a uid in its name": (
            [config_map(f"a-{UID}")],
            [config_map(f"a-{UID}"), config_map(f"a-{OTHER}")],
            "configmaps default/a-UID: 2, and without faults 1",
        ),
        "an old generation": (
            [{**config_map(generation=2), "status": {"observedGeneration": 2}}],
            [{**config_map(generation=3), "status": {"observedGeneration": 2}}],
            "configmaps default/a: .status.observedGeneration is 'an older one', and without faults 'the newest'",
        ),
    },
)
def test_a_difference_is_found(expected: list[Any], is_different: list[Any], text: str) -> None:
    (difference,) = differences(state(*expected), state(*expected), state(*is_different))
    assert difference.text == text
    assert described([difference] * 12).endswith("and 2 more")


@cases(
    "one, other",
    {
        "versions and uids": (config_map(resourceVersion="1", uid="x"), config_map(resourceVersion="2", uid="y")),
        "times": (config_map(data={"at": "2026-01-01T00:00:00Z"}), config_map(data={"at": "2026-01-01T00:00:01.5Z"})),
        "addresses": (config_map(data={"ip": "10.0.0.1"}), config_map(data={"ip": "fd00::1"})),
        "observedGeneration equals generation": (
            {**config_map(generation=2), "status": {"observedGeneration": 2}},
            {**config_map(generation=3), "status": {"observedGeneration": 3}},
        ),
        "generated names": (config_map("a-1", generateName="a-"), config_map("a-2", generateName="a-")),
        "uids and addresses in names": (config_map(f"a-{UID}"), config_map(f"a-{UID.replace('0', '1')}")),
        "names that are addresses": (config_map("10.0.0.1"), config_map("10.0.0.7")),
        "times in strings": (
            config_map(data={"at": '{"at": "2026-01-01T00:00:00Z"}'}),
            config_map(data={"at": '{"at": "2026-01-01T00:00:01Z"}'}),
        ),
        "uids as keys": (
            config_map(data={UID: "1", OTHER: "2", f"{UID}.json": UID}),
            config_map(data={UID: "2", OTHER: "1", f"{OTHER}.json": OTHER}),
        ),
    },
)
def test_differences_between_any_two_runs_are_ignored(one: Any, other: Any) -> None:
    assert differences(state(one), state(one), state(other)) == []


def test_differences_between_two_seeds_are_ignored() -> None:
    one, two, three = (state(config_map(data={"port": str(number), "same": "1"})) for number in range(3))
    assert differences(one, two, three) == []
    changed = state(config_map(data={"port": "7", "same": "2"}))
    assert [difference.text for difference in differences(one, two, changed)] == [
        "configmaps default/a: .data.same is '2', and without faults '1'"
    ]
