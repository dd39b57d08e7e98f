"""Tables equal those of kube-apiserver v1.36.2 for the same objects."""

import datetime
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.apiserver.printers.columns import cell, cells
from pilothouse.apiserver.printers.json_paths import PathError, RowBudget, find
from pilothouse.apiserver.printers.tables import TableConvertor, has_table
from pilothouse.apiserver.registry.core.pods.printers import pod_conditions, print_pod
from pilothouse.apiserver.registry.generic.printers import human_duration, selector_text
from pilothouse.apiserver.resources import ResourceInfo, built_in

HERE = Path(__file__).parent
OBJECTS: dict[str, Any] = json.loads((HERE / "served_objects.json").read_text())
ROWS: dict[str, list[Any]] = json.loads((HERE / "served_rows.json").read_text())
INFOS = {f"{info.api_version} {info.kind}": info for info in built_in()}
CREATED = "2026-01-02T03:04:05Z"
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_upstreams(name: str) -> None:
    document = OBJECTS[name]
    maker = TableConvertor(INFOS[f"{document['apiVersion']} {document['kind']}"])
    row = msgspec.json.decode(maker.row(msgspec.json.encode(document), "None", NOW))
    assert row["object"] is None
    expected = [{"<age>": "0s", "<created>": CREATED}.get(c, c) if isinstance(c, str) else c for c in ROWS[name]]
    assert row["cells"] == expected
    if document["kind"] != "IPAddress":
        assert len(row["cells"]) == len(msgspec.json.decode(maker.columns))


def _columns(name: str) -> dict[str, str]:
    definitions = msgspec.json.decode(TableConvertor(INFOS[name]).columns)
    return {column["name"]: column["description"] for column in definitions}


@pytest.mark.parametrize("name", [name for name, info in INFOS.items() if has_table(info) and "list" in info.verbs])
def test_columns_have_upstreams_descriptions(name: str) -> None:
    assert _columns(name)["Name"].startswith("Name must be unique within a namespace. Is required when creating")


def test_columns_of_pods_have_upstreams_descriptions() -> None:
    columns = _columns("v1 Pod")
    assert columns["Ready"] == "The aggregate readiness state of this pod for accepting traffic."
    assert columns["Node"].startswith("NodeName indicates in which node this pod is scheduled.")


ADDRESSES = [{"ip": "1.2.3.4"}, {"ip": "2001:db8::1"}]


@cases(
    "name, document, cell",
    {
        "addresses without ports": ("v1 Endpoints", {"subsets": [{"addresses": ADDRESSES}]}, "1.2.3.4,2001:db8::1"),
        "IPv6 with a port": (
            "v1 Endpoints",
            {"subsets": [{"addresses": ADDRESSES, "ports": [{"port": 80}]}]},
            "1.2.3.4:80,[2001:db8::1]:80",
        ),
        "selector of parameters": (
            "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding",
            {"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}},
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
        ),
    },
)
def test_cells_are_upstreams(name: str, document: dict[str, Any], cell: str) -> None:
    body = {"metadata": {"name": "x", "creationTimestamp": CREATED}, **document}
    row = TableConvertor(INFOS[name]).row(msgspec.json.encode(body), "None", NOW)
    assert cell in msgspec.json.decode(row)["cells"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 60, "5h1m"),
        (8 * 3600 + 60, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_are_upstreams(seconds: int, text: str) -> None:
    assert human_duration(datetime.timedelta(seconds=seconds)) == text


def test_selectors_are_sorted_by_key() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["b", "a"]},
        {"key": "canary", "operator": "DoesNotExist"},
        {"key": "zone", "operator": "Exists"},
    ]
    text = selector_text({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert text == "app=web,!canary,tier in (a,b),zone"
    assert selector_text({"matchExpressions": [{"key": "a", "operator": "Gt"}]}) is None
    assert selector_text({}) == ""


def pod(phase: str = "Running", *, metadata: Any = None, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "creationTimestamp": CREATED, **(metadata or {})},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], **(spec or {})},
        "status": {"phase": phase, **status},
    }


def state(ready: bool = False, restarts: int = 0, last: str = "", name: str = "a", **state: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"name": name, "ready": ready, "restartCount": restarts, "state": state}
    if last:
        result["lastState"] = {"terminated": {"finishedAt": last}}
    return result


READY = [{"type": "Ready", "status": "True"}]
RUNNING: dict[str, Any] = {"running": {}}
DONE: dict[str, Any] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
SIDECAR = {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}


@cases(
    "document, ready, status, restarts",
    {
        "no container statuses": (pod("Pending"), "0/2", "Pending", "0"),
        "all containers running": (
            pod(containerStatuses=[state(True, **RUNNING), state(True, **RUNNING)]),
            "2/2",
            "Running",
            "0",
        ),
        "restarts show when the last one was": (
            pod(
                containerStatuses=[
                    state(waiting={"reason": "CrashLoopBackOff"}, restarts=3, last="2026-01-02T02:04:05Z")
                ]
            ),
            "0/2",
            "CrashLoopBackOff",
            "3 (60m ago)",
        ),
        "gated": (
            pod("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            "0/2",
            "SchedulingGated",
            "0",
        ),
        "the second init container is at work": (
            pod(
                "Pending",
                spec={"initContainers": [{"name": "i"}, {"name": "j"}]},
                initContainerStatuses=[state(**DONE), state()],
            ),
            "0/2",
            "Init:1/2",
            "0",
        ),
        "init failed": (
            pod("Pending", initContainerStatuses=[state(terminated={"exitCode": 3})]),
            "0/2",
            "Init:ExitCode:3",
            "0",
        ),
        "init killed": (
            pod("Pending", initContainerStatuses=[state(terminated={"signal": 9, "exitCode": 137})]),
            "0/2",
            "Init:Signal:9",
            "0",
        ),
        "sidecars are counted": (
            pod(
                spec=SIDECAR,
                initContainerStatuses=[{**state(True, 1, name="s", **RUNNING), "started": True}],
                containerStatuses=[state(True, 2, **RUNNING)],
            ),
            "2/3",
            "Running",
            "3",
        ),
        "completed": (pod("Succeeded", containerStatuses=[state(**DONE)]), "0/2", "Completed", "0"),
        "one completed, ready": (
            pod(containerStatuses=[state(**DONE), state(True, **RUNNING)], conditions=READY),
            "1/2",
            "Running",
            "0",
        ),
        "one completed, not ready": (
            pod(containerStatuses=[state(**DONE), state(True, **RUNNING)]),
            "1/2",
            "NotReady",
            "0",
        ),
        "failed": (
            pod("Failed", containerStatuses=[state(terminated={"exitCode": 1, "reason": "Error"})]),
            "0/2",
            "Error",
            "0",
        ),
        "being deleted": (
            pod(metadata={"deletionTimestamp": CREATED}, containerStatuses=[state(True, **RUNNING)]),
            "1/2",
            "Terminating",
            "0",
        ),
        "node lost": (pod(metadata={"deletionTimestamp": CREATED}, reason="NodeLost"), "0/2", "Unknown", "0"),
        "a reason beats the phase": (pod("Failed", reason="Evicted"), "0/2", "Evicted", "0"),
    },
)
def test_pod_status(document: dict[str, Any], ready: str, status: str, restarts: str) -> None:
    assert print_pod(document, NOW)[:3] == [ready, status, restarts]


def test_terminated_pods_have_conditions() -> None:
    assert pod_conditions(pod("Running")) is None
    assert pod_conditions(pod("Failed")) == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]


class Custom:
    printer_columns = (
        {"name": "Speed", "type": "integer", "jsonPath": ".spec.speed"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status', "priority": 1},
        {"name": "Since", "type": "date", "jsonPath": ".status.since"},
    )


def test_additional_printer_columns() -> None:
    info = ResourceInfo("sea.example.com", "v1", "ships", "Ship", namespaced=True, custom=Custom())
    maker = TableConvertor(info)
    columns = msgspec.json.decode(maker.columns)
    assert [column["name"] for column in columns] == ["Name", "Speed", "Ready", "Since"]
    assert columns[1]["description"] == "Custom resource definition column (in JSONPath format): .spec.speed"
    ship = {
        "kind": "Ship",
        "apiVersion": "sea.example.com/v1",
        "metadata": {"name": "s"},
        "spec": {"speed": 7},
        "status": {"conditions": [{"type": "A"}, {"type": "Ready", "status": "True"}], "since": "2026-01-02T03:03:05Z"},
    }
    row = msgspec.json.decode(maker.row(msgspec.json.encode(ship), "Metadata", NOW))
    assert row["cells"] == ["s", 7, "True", "60s"]
    assert row["object"] == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "s"}}


def test_cells_of_a_wrong_type_are_empty() -> None:
    assert cell({"a": "7"}, ".a", "integer", NOW, RowBudget(100)) is None
    assert cell({"a": 7}, ".a", "boolean", NOW, RowBudget(100)) is None
    assert cell({"a": ["x", 1]}, ".a", "string", NOW, RowBudget(100)) == '["x",1]'
    assert cell({"a": {"z": "<", "b": 1}}, ".a", "string", NOW, RowBudget(100)) == '{"b":1,"z":"\\u003c"}'
    assert cell({"a": "soon"}, ".a", "date", NOW, RowBudget(100)) == "<invalid>"
    assert cell({"a": 5}, ".a", "date", NOW, RowBudget(100)) is None
    assert cell({"a": ""}, ".a", "date", NOW, RowBudget(100)) == "<unknown>"
    assert cell({"a": "2026-01-01"}, ".a", "date", NOW, RowBudget(100)) == "<invalid>"
    assert cell({"a": [1, 2]}, ".a[*]", "string", NOW, RowBudget(100)) == "1"
    assert cell({"a": None}, ".a", "string", NOW, RowBudget(100)) == "<no value>"
    assert cell({"a": None}, ".a", "integer", NOW, RowBudget(100)) is None
    assert cell({}, ".a.b", "string", NOW, RowBudget(100)) is None


ROBOT = {
    "a": {"b.c/d": [1, 2, 3]},
    "l": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "z", "f": True}],
    "s": "text",
    "none": None,
}


@cases(
    "path, values",
    {
        "an escaped name": (r".a.b\.c/d[1]", [2]),
        "a quoted name": (r".a['b\.c/d'][-1]", [3]),
        "all items": ("{.l[*].n}", ["x", "y", "z"]),
        "a slice": (".l[0:2].n", ["x", "y"]),
        "a slice with a step": (r".a.b\.c/d[::2]", [1, 3]),
        "a union of names": (".l[0]['n','v']", ["x", 1]),
        "a union of indexes": (".l[0,2].n", ["x", "z"]),
        "equal": ('.l[?(@.n=="y")].v', [2]),
        "greater": (".l[?(@.v>1)].n", ["y"]),
        "at most": (".l[?(@.v <= 1)].n", ["x"]),
        "a present field": (".l[?(@.f)].n", ["z"]),
        "a bool": (".l[?(@.f==true)].n", ["z"]),
        "recursive": ("..n", ["x", "y", "z"]),
        "the object itself": ("$.s", ["text"]),
        "null": (".none", [None]),
        "a missing field": (".x.y", []),
    },
)
def test_json_paths(path: str, values: list[object]) -> None:
    assert find(ROBOT, path, RowBudget(100)) == values


@cases(
    "path",
    {
        "an index past the end": ".l[5]",
        "an item of a text": ".s[0]",
        "a comparison of different types": ".l[?(@.n>1)]",
        "an unterminated filter": ".l[?(@.n",
        "an unterminated array": ".l[",
        "no index": ".l[a]",
        "an identifier": "name",
    },
)
def test_cells_of_paths_that_do_not_fit_are_empty(path: str) -> None:
    with pytest.raises(PathError):
        find(ROBOT, path, RowBudget(100))
    assert cell(ROBOT, path, "string", NOW, RowBudget(100)) is None


@cases(
    "path, whole",
    {
        "printed": (".spec", '[{"n":0'),
        "visited": (".spec[*].n", "0"),
        "visited in vain": (".spec[*].n.m", None),
        "compared": (".spec[?(@.n==1)].n", "1"),
    },
)
def test_cost_of_a_row_grows_with_its_object_and_not_with_the_columns(path: str, whole: str | None) -> None:
    ship = {"spec": [{"n": n} for n in range(5000)]}
    size = len(msgspec.json.encode(ship))
    row = cells(ship, [{"jsonPath": path}] * 400, NOW, size)
    assert (row[0] or "").startswith(whole or "")
    assert row[-1] is None
    assert sum(len(text or "") for text in row) <= 6 * size
    assert cells(ship, [{"jsonPath": ".spec[0].n", "type": "integer"}] * 500, NOW, 200) == [0] * 500
