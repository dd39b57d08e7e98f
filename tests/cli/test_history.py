"""``pilothouse history`` and ``pilothouse get --at``."""

import asyncio
import datetime
import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.clients.embedded_server import EmbeddedServer
from tests.programs import run_pilothouse
from tests.real_cluster import RealCluster
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import CONFIG_MAPS, EVENTS, PODS
from pilothouse.api.kinds import Kind
from pilothouse.cli import main
from pilothouse.cli.get import Table, set_ages
from pilothouse.cli.history import Version, described, version_lines, versions, without_values
from pilothouse.cli.program import UserError
from pilothouse.cli.resource_arguments import find_resource, type_and_name
from pilothouse.cli.why import not_found_lines
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.client.interceptor import Interceptor, Rule, fail
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.machinery.causes import Cause, Origin, Trigger
from pilothouse.machinery.differences import differences
from pilothouse.testing import AsyncCluster, async_plane
from pilothouse.why import Reference

ROLLOUTS = 4
RBAC = "rbac.authorization.k8s.io/v1"


def deployment(replicas: int, image: str) -> dict[str, Any]:
    labels = {"app": "web"}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": image}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def _record(cluster: AsyncCluster, states: dict[int, dict[str, Any]]) -> None:
    """All pods at each revision that changes one, from a watch."""
    known: dict[str, Any] = {}
    async with cluster.client.watch(PODS.raw, resource_version="1", allow_bookmarks=False) as batches:
        async for batch in batches:
            for event in batch:
                document = msgspec.json.decode(event.object)
                meta = document["metadata"]
                known.pop(meta["name"], None)
                if event.type != "DELETED":
                    # As in a list, whose items have neither.
                    known[meta["name"]] = {k: v for k, v in document.items() if k not in ("kind", "apiVersion")}
                states[int(meta["resourceVersion"])] = dict(known)


async def test_state_at_a_revision_equals_a_watchers(env: Env) -> None:
    states: dict[int, dict[str, Any]] = {}
    async with async_plane(env=env, nodes=3) as cluster, TaskGroup("recorder") as group:
        group.start(_record(cluster, states))
        await cluster.create(deployment(6, "nginx:0"))
        for number in range(1, ROLLOUTS):
            await asyncio.sleep(5)
            await cluster.client.patch(
                DEPLOYMENTS, "web", merge_patch(deployment(3 + number, f"nginx:{number}")), "default"
            )
        await asyncio.sleep(30)
        chosen = random.Random(1).sample(sorted(states), 100)
        for revision in chosen:
            then = await cluster.client.list(PODS.raw, resource_version=str(revision), resource_version_match="Exact")
            listed = [msgspec.json.decode(item) for item in then.items]
            assert {obj["metadata"]["name"]: obj for obj in listed} == states[revision]
        group.cancel()


async def test_versions_of_a_deleted_object(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await _three_versions(cluster.client)
        _oldest, versions_found = await versions(cluster.client, CONFIG_MAPS.raw, "default", "settings")
        assert [(kind, document.get("data")) for kind, document in versions_found] == [
            ("ADDED", {"a": "1"}), ("MODIFIED", {"a": "2"}), ("DELETED", {"a": "2"}), ("ADDED", {"b": "3"}),
        ]  # fmt: skip


async def test_object_older_than_the_history(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await _three_versions(cluster.client)
        await asyncio.sleep(2)
        await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "other"}}, "default")
        await asyncio.sleep(400)
        await cluster.client.patch(CONFIG_MAPS, "settings", merge_patch({"data": {"b": "4"}}), "default")
        _oldest, versions_found = await versions(cluster.client, CONFIG_MAPS.raw, "default", "settings")
        assert [(kind, document["data"]) for kind, document in versions_found] == [
            ("EXISTED", {"b": "3"}), ("MODIFIED", {"b": "4"}),
        ]  # fmt: skip


async def test_history_starts_at_the_oldest_watchable_version(env: Env) -> None:
    """kube-apiserver that was restarted lists what etcd has, and its watch cache begins at the restart."""
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await _three_versions(cluster.client)
        begin = (await cluster.client.list(CONFIG_MAPS)).metadata.resource_version
        await cluster.client.patch(CONFIG_MAPS, "settings", merge_patch({"data": {"b": "4"}}), "default")

        def is_older(_call: object, request: wire.Request) -> bool:
            return int(parse_qs(urlsplit(request.target).query)["resourceVersion"][0]) < int(begin)

        restarted = Interceptor(cluster.client.transport, env)
        restarted.add(Rule(fail(410, "Expired", f"too old resource version: 1 ({begin})"), verb="watch", when=is_older))
        result = await versions(Client(restarted, env), CONFIG_MAPS.raw, "default", "settings")
        assert (result[0], [(kind, document["data"]) for kind, document in result[1]]) == (
            int(begin), [("EXISTED", {"b": "3"}), ("MODIFIED", {"b": "4"})],
        )  # fmt: skip

        assert [change.path for change in list(described(result[1], str))[1].changes] == ["data.b"]

        without_number = Interceptor(cluster.client.transport, env)
        without_number.add(Rule(fail(410, "Expired", "The resourceVersion is too old."), verb="watch"))
        result = await versions(Client(without_number, env), CONFIG_MAPS.raw, "default", "settings")
        assert [(kind, document["data"]) for kind, document in result[1]] == [("EXISTED", {"b": "4"})]


async def _three_versions(client: Client, namespace: str = "default") -> None:
    meta = {"metadata": {"name": "settings"}}
    await client.create(CONFIG_MAPS, {**meta, "data": {"a": "1"}}, namespace)
    await client.patch(CONFIG_MAPS, "settings", merge_patch({"data": {"a": "2"}}), namespace, field_manager="editor")
    await client.delete(CONFIG_MAPS, "settings", namespace)
    await client.create(CONFIG_MAPS, {**meta, "data": {"b": "3"}}, namespace)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server with the versions of ``_three_versions``."""
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as server:
        _fill(str(server.kubeconfig("admin", ("system:masters",))))
        yield server


@pytest.fixture(scope="module")
def kubeconfig(server: EmbeddedServer) -> str:
    """Of its administrator."""
    return str(server.kubeconfig("admin", ("system:masters",)))


def _fill(kubeconfig: str, namespace: str = "default") -> None:
    async def fill() -> None:
        transport = connect(Env(), kubeconfig=kubeconfig)
        await _three_versions(Client(transport, Env()), namespace)
        await transport.close()

    loops.run(fill())


def _events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_history_as_text(kubeconfig: str, tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "history", "cm/settings", f"--kubeconfig={kubeconfig}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    changed_fields = [line.split("  ")[2:] for line in lines if not line.startswith(" ")]
    assert [kind for kind, _by in changed_fields] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert all(re.fullmatch(r"by admin \(\S+\)", by) for _kind, by in changed_fields)
    assert [line for line in lines if line.startswith(" ")] == ['      data.a: "1" -> "2"']


def test_the_origin_of_a_version_as_text() -> None:
    cause = Cause("replicaset-controller", "default/web", "2 of 3 desired: \x1b]0;web-a", (Trigger("TIMER"),))
    origin = Origin("system:serviceaccount:kube-system:replicaset-controller", "manager/v1.36 (linux)", cause=cause)
    version = Version("DELETED", "7", "2026-01-01T00:00:00Z", (), (), origin)
    first, second = version_lines(version, all_fields=True, triggers=True)
    assert first == (
        "7  2026-01-01T00:00:00Z  DELETED  by system:serviceaccount:kube-system:replicaset-controller (manager/v1.36): "
        "replicaset-controller default/web: 2 of 3 desired: ^[]0;web-a"
    )
    assert second == "    after TIMER"


def test_values_of_secrets_are_not_printed() -> None:
    before = {"metadata": {"name": "s", "labels": {"a": "1"}}, "data": {"password": "aHVudGVyMg=="}}
    after = {"metadata": {"name": "s", "labels": {"a": "2"}}, "data": {"token": "c2VjcmV0"}, "type": "Opaque"}
    version = Version("MODIFIED", "7", "", (), tuple(differences(before, after)))
    assert list(version_lines(without_values(version), all_fields=True))[1:] == [
        '    - data.password: "***"',
        '    + data.token: "***"',
        '      metadata.labels.a: "1" -> "2"',
        '    + type: "Opaque"',
    ]


def test_objects_as_they_were(kubeconfig: str, tmp_path: Path) -> None:
    def pilothouse(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pilothouse(tmp_path, *words, f"--kubeconfig={kubeconfig}")

    result = _events(pilothouse("history", "configmap", "settings", "-o=json"))
    assert result[1]["changes"] == [{"path": "data.a", "before": "1", "after": "2"}]
    assert all(item["time"].endswith("Z") for item in result)
    revisions = [item["resourceVersion"] for item in result]
    data = []
    for revision in revisions:
        done = pilothouse("get", "cm", "settings", "-o=json", f"--at={revision}")
        data.append(json.loads(done.stdout)["data"] if done.stdout else done.stderr)
    assert data == [
        {"a": "1"},
        {"a": "2"},
        'Error: configmaps "settings" not found in namespace default (context x)\n',
        {"b": "3"},
    ]
    header, *rows = pilothouse("get", "configmaps", "-A", f"--at={revisions[0]}").stdout.splitlines()
    assert header.split() == ["NAMESPACE", "NAME", "DATA", "AGE"]
    assert [row.split()[:3] for row in rows if "settings" in row] == [["default", "settings", "1"]]
    assert pilothouse("get", "cm", "-o=name", "--at=0s").stdout == "configmaps/settings\n"


def _grant(kubeconfig: str, user: str) -> None:
    """Let a user read the ConfigMaps of the namespace default, and nothing elsewhere."""
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "reader"}, "rules": [rule]}
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }

    async def create() -> None:
        transport = connect(Env(), kubeconfig=kubeconfig)
        client = Client(transport, Env())
        for plural, document in (("roles", role), ("rolebindings", binding)):
            body = json.dumps(document).encode()
            await client.request("POST", f"/apis/{RBAC}/namespaces/default/{plural}", body=body)
        await transport.close()

    loops.run(create())


def test_objects_as_they_were_for_a_user_of_one_namespace(
    server: EmbeddedServer, kubeconfig: str, tmp_path: Path
) -> None:
    _grant(kubeconfig, "dora")
    versions = _events(run_pilothouse(tmp_path, "history", "cm/settings", "-o=json", f"--kubeconfig={kubeconfig}"))
    words = ["get", "cm", "-o=name", f"--at={versions[0]['resourceVersion']}"]
    done = run_pilothouse(tmp_path, *words, f"--kubeconfig={server.kubeconfig('dora')}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "configmaps/settings\n", "")


def test_user_writes(kubeconfig: str, tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "history", "-A", "-o=json", f"--kubeconfig={kubeconfig}")
    assert done.returncode == 0, done.stderr
    document = [json.loads(line) for line in done.stdout.splitlines()]
    assert [item["text"] for item in document if item["object"] == "configmap/settings"] == [
        "was created",
        'changed: data.a: "1" -> "2"',
        "was deleted",
        "was created",
    ]
    assert {item["user"] for item in document} == {"admin"}


def test_user_without_permission_for_origins(server: EmbeddedServer, tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "history", f"--kubeconfig={server.kubeconfig('eve', ())}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == ('Error: who changed what: forbidden: User "eve" cannot get path "/debug/history/changes"\n')


def test_missing_name_and_similar_names(kubeconfig: str, tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "why", "cm/set", f"--kubeconfig={kubeconfig}")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Looked in context x, namespace default.",
        "Similar names: settings",
    ]


def test_name_in_another_namespace(kubeconfig: str, tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "why", "cm/settings", "-n", "kube-system", f"--kubeconfig={kubeconfig}")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Looked in context x, namespace kube-system.",
        "Found in other namespaces: default",
    ]


@cases(
    "age, hint",
    {
        "a new cluster": (59.0, ""),
        "some minutes": (200.0, "`pilothouse get pods -n team --at 2m` lists those of two minutes ago."),
        "history that has just reached ten minutes": (600.0, "--at 5m"),
        "an hour": (3600.0, "--at 10m` lists those of ten minutes ago."),
    },
)
def test_a_time_within_the_history_is_proposed(age: float, hint: str) -> None:
    lines = list(not_found_lines(Reference("pods", "team", "wbe"), "context x", ["web"], age=age))
    assert lines[:2] == ["Looked in context x, namespace team.", "Similar names: web"]
    assert len(lines) == (3 if hint else 2)
    assert hint in lines[-1]


def test_writes_since_a_time_before_the_history(kubeconfig: str, tmp_path: Path) -> None:
    since, everything = (
        run_pilothouse(tmp_path, "history", "-A", *words, f"--kubeconfig={kubeconfig}")
        for words in (("--since=10m",), ())
    )
    assert since.returncode == 0, since.stderr
    assert since.stdout == everything.stdout != ""
    assert re.fullmatch(r"The history that the API server keeps begins at resourceVersion \d+\.\n", since.stderr)


def test_changes_of_an_object_since_a_time(kubeconfig: str, tmp_path: Path) -> None:
    def history(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pilothouse(tmp_path, "history", "cm/settings", "-o=json", f"--kubeconfig={kubeconfig}", *words)

    everything = history()
    revisions = [item["resourceVersion"] for item in _events(everything)]
    assert [item["resourceVersion"] for item in _events(history(f"--since={revisions[1]}"))] == revisions[2:]
    first, *_ = _events(history(f"--since={revisions[0]}"))
    assert (first["type"], first["changes"]) == ("MODIFIED", [{"path": "data.a", "before": "1", "after": "2"}])
    before_history = history("--since=10m")
    assert (before_history.stdout, before_history.stderr) == (everything.stdout, "")
    nothing = history("--since=0s")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert re.fullmatch(
        r"There are no changes of configmaps settings since then; the last one was at \S+Z, "
        rf"resourceVersion {revisions[-1]}\.\n",
        nothing.stderr,
    )


def test_objects_of_a_category(kubeconfig: str, tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "get", "all", "-A", f"--kubeconfig={kubeconfig}")
    assert done.returncode == 0, done.stderr
    header, service = done.stdout.splitlines()
    assert (header.split()[:2], service.split()[:2]) == (["NAMESPACE", "NAME"], ["default", "service/kubernetes"])


AT = datetime.datetime(2026, 1, 1, 0, 0, 40, tzinfo=datetime.UTC)
CREATED = {"metadata": {"name": "settings", "creationTimestamp": "2026-01-01T00:00:00Z"}}


def table_of(columns: str, cells: list[Any], obj: dict[str, Any]) -> Table:
    names = [{"name": name} for name in columns.split(", ")]
    return msgspec.convert({"columnDefinitions": names, "rows": [{"cells": cells, "object": obj}]}, Table)


@cases(
    "kind, columns, cells, obj, expected",
    {
        "the age of a custom resource": (
            Kind("apps.example.com", "v1", "deployments", "Deployment", True, dict),
            "Name, Seen, Age", ["settings", "35m", "35m"], CREATED, ["settings", "35m", "40s"],
        ),
        "when an event was seen": (
            EVENTS,
            "Last Seen, Type, Reason, Object, Subobject, Source, Message, First Seen, Count, Name",
            ["35m", "Normal", "Started", "pod/p", "", "kubelet", "text", "35m", 3, "settings"],
            {
                **CREATED, "type": "Normal", "reason": "Started", "message": "text", "count": 3,
                "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "kubelet"},
                "firstTimestamp": "2026-01-01T00:00:10Z", "lastTimestamp": "2026-01-01T00:00:36Z",
            },
            ["4s", "Normal", "Started", "pod/p", "", "kubelet", "text", "30s", 3, "settings"],
        ),
        "a custom resource with the columns of a built-in one": (
            Kind("policy.example.com", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, dict),
            "Name, Min Available, Max Unavailable, Allowed Disruptions, Age",
            ["settings", "1", "N/A", 3, "35m"], CREATED, ["settings", "1", "N/A", 3, "40s"],
        ),
        "columns of another version": (EVENTS, "Last Seen, Age", ["35m", "35m"], CREATED, ["35m", "40s"]),
    },
)  # fmt: skip
def test_ages_at_a_time(
    kind: Kind[Any], columns: str, cells: list[Any], obj: dict[str, Any], expected: list[Any]
) -> None:
    table = table_of(columns, cells, obj)
    set_ages(table, kind, AT)
    assert table.rows[0].cells == expected


@cases(
    "words, message",
    {
        "kind's get clusters": (["get", "clusters"], "`pilothouse list` lists the clusters"),
        "an unknown type": (["get", "widgets"], 'the server doesn\'t have a resource type "widgets"'),
        "invalid time": (["get", "pods", "--at=noon"], '"noon" is no resourceVersion, no time such as'),
        "the future": (["get", "pods", "--at=2999-01-01T00:00:00Z"], " is in the future; it is "),
        "before the history": (["get", "pods", "--at=100000h"], "the history of this API server begins at"),
        "future revision": (["get", "pods", "--at=999999999"], "the API server is at resourceVersion "),
        "object that never existed": (
            ["history", "pod/none"],
            "there is no pods none in namespace default (context x), and was none",
        ),
        "resource without watch": (["history", "componentstatuses/x"], "can't be watched"),
    },
)
def test_errors_of_requests(kubeconfig: str, tmp_path: Path, words: list[str], message: str) -> None:
    done = run_pilothouse(tmp_path, *words, f"--kubeconfig={kubeconfig}")
    assert done.returncode in (1, 2)
    assert message in done.stderr


@cases(
    "words, message",
    {
        "missing name": (["history", "pods"], "expected TYPE/NAME, got pods"),
        "two slashes": (["why", "pod/a/b"], "invalid resource name 'a/b': may not contain '/'"),
        "a path as a name": (["history", "pod/.."], "invalid resource name '..': may not be '.' or '..'"),
        "a path as a namespace": (["why", "pod/a", "-n=a/b"], "invalid resource name 'a/b': may not contain '/'"),
        "missing type": (["get"], "expected TYPE [NAME]"),
        "-A with an object": (["history", "pod/a", "-A"], "is for the writes of users, without TYPE/NAME"),
        "a format of get": (["get", "pods", "-o=xml"], '--output must be wide, name, json or yaml, got "xml"'),
        "a format of history": (["history", "pod/a", "-o=xml"], '--output must be text or json, got "xml"'),
    },
)
def test_invalid_command_lines(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


@cases(
    "words, expected",
    {
        "TYPE/NAME": (["pod/web"], ("pod", "web")),
        "TYPE NAME": (["pod", "web"], ("pod", "web")),
        "TYPE/NAME NAME": (["pod/web", "x"], None),
        "no arguments": ([], None),
    },
)
def test_types_and_names(words: list[str], expected: tuple[str, str] | None) -> None:
    if expected is not None:
        assert type_and_name(words) == expected
        return
    with pytest.raises(UserError, match="expected TYPE/NAME"):
        type_and_name(words)


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("po", "pods"),
        ("Pod", "pods"),
        ("deploy", "deployments.apps"),
        ("deployments.apps", "deployments.apps"),
        ("deployment.v1.apps", "deployments.apps"),
        ("events", "events"),
        ("events.events.k8s.io", "events.events.k8s.io"),
    ],
)
async def test_resources_as_kubectl_names_them(env: Env, text: str, resource: str) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        assert find_resource(await cluster.client.discover(), text).group_resource == resource


@pytest.mark.real
def test_in_front_of_kube_apiserver(real_cluster: RealCluster, tmp_path: Path) -> None:
    namespace, kubeconfig = real_cluster.namespace("history"), str(real_cluster.kubeconfig)
    _fill(kubeconfig, namespace)

    def pilothouse(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pilothouse(tmp_path, *words, f"--namespace={namespace}", f"--kubeconfig={kubeconfig}")

    result = _events(pilothouse("history", "cm/settings", "-o=json"))
    assert [item["type"] for item in result] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    assert result[1]["changes"] == [{"path": "data.a", "before": "1", "after": "2"}]
    assert "a: '1'" in pilothouse("get", "cm", "settings", "-o=yaml", f"--at={result[0]['resourceVersion']}").stdout
    done = pilothouse("get", "cm", "--at=5m")
    assert done.returncode == 2
    assert "only pilothouse's API server knows which resourceVersion was current at a time" in done.stderr
