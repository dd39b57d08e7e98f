"""kubectl with custom resources that a webhook converts, on our server and on kube-apiserver v1.20.2.

The same commands run on both sides; a webhook on loopback converts. Their output is compared without random values.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.apiextensions.conversion.things import definition, good, v1_thing, v2_thing
from tests.clients.conversion_webhook import ConversionWebhook
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.clients.reading import Reading
from tests.clients.test_kubectl import KUBECTL, Kubectl
from tests.programs import until
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")

Object = dict[str, Any]
_RANDOM = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r'"resourceVersion":"\d+"'), '"resourceVersion":"N"'),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[ConversionWebhook]:
    with ConversionWebhook(tmp_path) as running:
        yield running


@pytest.fixture
def pilothouse_kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    with EmbeddedServer(tmp_path) as running:
        yield Kubectl(running, running.kubeconfig("admin", token=ADMIN_TOKEN))


def plain(text: str) -> str:
    for pattern, replacement in _RANDOM:
        text = pattern.sub(replacement, text)
    return text.rstrip("\n")


class Session:
    """Commands on one side, and their results."""

    def __init__(self, kubectl: Kubectl, webhook: ConversionWebhook, directory: Path) -> None:
        self._kubectl = kubectl
        self._webhook = webhook
        self._directory = directory
        self._reading = Reading(Path(kubectl.environment["KUBECONFIG"]))
        self.seen: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        kubectl, hook = self._kubectl, self._webhook
        crd = definition(clientConfig=hook.config)
        for version in crd["spec"]["versions"]:
            del version["selectableFields"]  # v1.20 does not support them
        kubectl("create", "-f", "-", stdin=crd)
        kubectl("wait", "--for=condition=Established", "crd/things.example.com")
        until(lambda: "v2" in self._reading.raw("/apis/example.com")[1], "both versions are discovered")
        self._verbs()
        self._field_managers()
        self._failures()
        self._storage_version()
        kubectl("delete", "crd", "things.example.com")
        return self.seen

    def _verbs(self) -> None:
        self._note("apply v1", "apply", "-f", "-", stdin=v1_thing("a", "h:1", replicas=2))
        self._note("get v1", "get", "things.v1.example.com")
        self._note("get v2", "get", "things.v2.example.com")
        self._note("get v2 -o", "get", "things.v2.example.com/a", "-o", "jsonpath={.apiVersion} {.spec}")
        self._note("apply v2", "apply", "-f", "-", stdin=v2_thing("b", "x", "2", count=1))
        self._note("get b v1 -o", "get", "things.v1.example.com", "b", "-o", "jsonpath={.apiVersion} {.spec}")
        self._note("apply v2 again", "apply", "-f", "-", stdin=v2_thing("b", "x", "3", count=1))
        self._note("describe", "get", "things.v2.example.com", "-l", "none=such")
        self._note("select", "get", "things.v2.example.com", "--field-selector=metadata.name=b")
        merge = '{"spec":{"port":"7"}}'
        self._note("merge patch", "patch", "things.v2.example.com", "a", "--type=merge", "-p", merge)
        operations = '[{"op":"replace","path":"/spec/host","value":"j"}]'
        self._note("json patch", "patch", "things.v2.example.com", "a", "--type=json", "-p", operations)
        self._note("after patches", "get", "things.v1.example.com", "a", "-o", "jsonpath={.spec}")
        self._note("scale v2", "scale", "things.v2.example.com/a", "--replicas=5")
        self._note("scale v1", "get", "--raw", f"{PATH}/v1/namespaces/default/things/a/scale")
        self._note("after scale", "get", "things.v1.example.com", "a", "-o", "jsonpath={.spec.replicas}")
        self._edit()
        status = json.loads(self._kubectl("get", "--raw", f"{PATH}/v2/namespaces/default/things/a"))
        status["status"] = {"count": 4}
        replaced = f"{PATH}/v2/namespaces/default/things/a/status"
        self._kubectl("replace", "--raw", replaced, "-f", "-", stdin=status)
        self._note("status v1", "get", "things.v1.example.com", "a", "-o", "jsonpath={.status} {.spec}")
        self._note("label", "label", "things.v2.example.com", "a", "color=red")
        self._note("by label", "get", "things.v2.example.com", "-l", "color=red", "-o", "name")
        self._note("delete v2", "delete", "things.v2.example.com", "b")
        self._note("what is left", "get", "things.v1.example.com", "-o", "name")

    def _edit(self) -> None:
        editor = self._directory / "editor.sh"
        editor.write_text('#!/bin/sh\nsed -i "s/port: .*/port: \\"99\\"/" "$1"\n')
        editor.chmod(0o700)
        self._kubectl.environment["KUBE_EDITOR"] = str(editor)
        self._note("edit v2", "edit", "things.v2.example.com", "a")
        self._note("after edit", "get", "things.v1.example.com", "a", "-o", "jsonpath={.spec.hostPort}")

    def _field_managers(self) -> None:
        ssa = ("apply", "--server-side", "-f", "-")
        self._note("ssa v1", *ssa, "--field-manager=one", stdin=v1_thing("s", "h:1", mode="x"))
        self._note("conflict", *ssa, "--field-manager=two", stdin=v2_thing("s", "o", "1"), fails=True)
        self._note("forced", *ssa, "--field-manager=two", "--force-conflicts", stdin=v2_thing("s", "o", "1"))
        self._owners("owners after force", "s")
        self._note("less", *ssa, "--field-manager=one", stdin={**v1_thing("s"), "spec": {"replicas": 3}})
        self._note("after less", "get", "things.v1.example.com", "s", "-o", "jsonpath={.spec}")
        self._owners("owners after less", "s")
        self._kubectl("patch", "things.v1.example.com", "s", "--type=merge", "-p", '{"spec":{"hostPort":"z:9"}}')
        self._owners("owners after an update", "s")

    def _failures(self) -> None:
        kubectl, hook = self._kubectl, self._webhook
        for name, answer in ANSWERS.items():
            hook.answer = answer
            self._note(f"{name}: get", "get", "--raw", f"{PATH}/v2/namespaces/default/things/a", fails=True)
        hook.answer = ANSWERS["a failure"]
        self._note("failed create", "create", "-f", "-", stdin=v2_thing("n"), fails=True)
        self._note("failed delete", "delete", "things.v2.example.com", "a", fails=True)
        self._note("stored version", "get", "things.v1.example.com", "a", "-o", "name")
        hook.answer = good
        document = json.loads(kubectl("get", "crd", "things.example.com", "-o", "json"))
        document["spec"]["conversion"]["webhook"]["clientConfig"] = {"url": "https://127.0.0.1:1/x"}
        kubectl("replace", "-f", "-", stdin=document)
        path = f"{PATH}/v2/namespaces/default/things/a"
        until(lambda: "connection refused" in self._reading.raw(path)[1], "the new address is called")
        self._note("closed port", "get", "--raw", path, fails=True)
        document = json.loads(kubectl("get", "crd", "things.example.com", "-o", "json"))
        document["spec"]["conversion"]["webhook"]["clientConfig"] = hook.config
        kubectl("replace", "-f", "-", stdin=document)
        until(lambda: self._converts(path), "the old address is called")

    def _converts(self, path: str) -> bool:
        del self._webhook.requests[:]
        return self._reading.raw(path)[0] == 200 and bool(self._webhook.requests)

    def _storage_version(self) -> None:
        kubectl = self._kubectl
        document = json.loads(kubectl("get", "crd", "things.example.com", "-o", "json"))
        for version in document["spec"]["versions"]:
            version["storage"] = version["name"] == "v2"
        kubectl("replace", "-f", "-", stdin=document)
        self._note("stored versions", "get", "crd", "things.example.com", "-o", "jsonpath={.status.storedVersions}")
        until(self._stores_v2, "what is created in v2 is not converted")
        self._note("mixed v1", "get", "things.v1.example.com")
        self._note("mixed v2", "get", "things.v2.example.com")
        kubectl("patch", "things.v2.example.com", "a", "--type=merge", "-p", "{}")
        del self._webhook.requests[:]
        self._note("migrated", "get", "things.v2.example.com", "a", "-o", "jsonpath={.spec}")
        assert ("a", "v2") not in self._webhook.requests, "it is stored in v2 by now"
        self._note("migrated v1", "get", "things.v1.example.com", "a", "-o", "jsonpath={.spec}")

    def _stores_v2(self) -> bool:
        # Watch caches of the real server request conversions at any time: to v1, if objects are stored in v2.
        del self._webhook.requests[:]
        self._kubectl("create", "-f", "-", stdin=v2_thing("probe"))
        self._kubectl("get", "things.v2.example.com", "probe")
        self._kubectl("delete", "things.v2.example.com", "probe")
        return ("probe", "v2") not in self._webhook.requests

    def _note(self, title: str, *arguments: str, stdin: Object | None = None, fails: bool = False) -> None:
        assert title not in self.seen, title
        self.seen[title] = plain(self._kubectl(*arguments, stdin=stdin, fails=fails))

    def _owners(self, title: str, name: str) -> None:
        document = json.loads(self._kubectl("get", "--raw", f"{PATH}/v1/namespaces/default/things/{name}"))
        # They are in the order of their times, which have seconds.
        entries = sorted(document["metadata"].get("managedFields", ()), key=lambda one: one["manager"])
        self.seen[title] = [
            (entry["manager"], entry["operation"], entry["apiVersion"], entry["fieldsV1"].get("f:spec"))
            for entry in entries
        ]


PATH = "/apis/example.com"


def _wrong(**changes: Any) -> Any:
    def answer(request: Object) -> Object:
        response = good(request)
        for obj in response["convertedObjects"]:
            obj["metadata"] |= changes
        return response

    return answer


ANSWERS = {
    "a failure": lambda request: {"uid": request["uid"], "result": {"status": "Failure", "message": "custom error"}},
    "no status": lambda request: {"uid": request["uid"], "convertedObjects": []},
    "another uid": lambda request: {**good(request), "uid": "other"},
    "no objects": lambda request: {**good(request), "convertedObjects": []},
    "another version": lambda request: {**good(request), "convertedObjects": request["objects"]},
    "another name": _wrong(name="other"),
    "another namespace": _wrong(namespace="other"),
    "another object": _wrong(uid="other"),
    "labels that are none": _wrong(labels={"a": 1}),
    "no kind": lambda request: {**good(request), "convertedObjects": [{"apiVersion": request["desiredAPIVersion"]}]},
    "another kind": lambda request: {
        **good(request),
        "convertedObjects": [{"apiVersion": request["desiredAPIVersion"], "kind": "Other"}],
    },
    "no metadata": lambda request: {
        **good(request),
        "convertedObjects": [{"apiVersion": request["desiredAPIVersion"], "kind": "Thing"}],
    },
    "no response": lambda _request: None,
}


def test_kubectl_shows_each_version(pilothouse_kubectl: Kubectl, webhook: ConversionWebhook, tmp_path: Path) -> None:
    output = Session(pilothouse_kubectl, webhook, tmp_path).run()
    assert output["get v1"].split() == ["NAME", "HOSTPORT", "a", "h:1"]
    assert output["get v2"].split() == ["NAME", "HOST", "PORT", "a", "h", "1"]
    assert output["after edit"] == "j:99"
    assert json.loads(output["status v1"].partition(" ")[0]) == {"replicas": 4}
    assert output["a failure: get"].endswith("conversion webhook for example.com/v1, Kind=Thing failed: custom error")
    assert output["stored versions"] == '["v1","v2"]'
    assert [line.split() for line in output["mixed v2"].splitlines()] == [
        ["NAME", "HOST", "PORT"],
        ["a", "j", "99"],
        ["s", "z", "9"],
    ]


def test_output_is_the_same_on_kube_apiserver(
    pilothouse_kubectl: Kubectl, real_cluster: RealCluster, webhook: ConversionWebhook, tmp_path: Path
) -> None:
    real = Session(Kubectl(real_cluster, real_cluster.kubeconfig), webhook, tmp_path).run()
    webhook.answer = good
    own = Session(pilothouse_kubectl, webhook, tmp_path).run()
    differing = {title: (text, own[title]) for title, text in real.items() if own[title] != text}
    assert differing == {}
