"""A CustomResourceDefinition with two different versions, and a webhook that converts between them."""

import asyncio
import copy
import json
from collections.abc import Callable
from typing import Any

from tests import custom_resources
from tests.apiserver.api import Answer, Api, Object
from tests.custom_resources import DEFINITIONS

from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError, Target

DEFINITION = DEFINITIONS + "/things.example.com"
V1, V2 = (f"/apis/example.com/{version}/namespaces/default/things" for version in ("v1", "v2"))
URL = "https://hooks.test:8443/convert"
CALLED = f"{URL}?timeout=30s"
FAILED = "conversion webhook for example.com/v1, Kind=Thing "


def _schema(spec: Object, status: Object) -> Object:
    return custom_resources.schema(
        {"type": "object", "properties": spec}, status={"type": "object", "properties": status}
    )


def definition(storage: str = "v1", **conversion: Any) -> Object:
    """v1 has ``hostPort`` where v2 has ``host`` and ``port``, and ``replicas`` where v2 has ``count``."""
    text, number = {"type": "string"}, {"type": "integer"}
    scales = {
        "v1": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        "v2": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"},
    }
    schemas = {
        "v1": _schema({"hostPort": text, "replicas": number, "mode": {**text, "default": "one"}}, {"replicas": number}),
        "v2": _schema(
            {"host": text, "port": text, "count": number, "mode": text, "late": {**text, "default": "two"}},
            {"count": number},
        ),
    }
    columns = {
        "v1": [{"name": "HostPort", "type": "string", "jsonPath": ".spec.hostPort"}],
        "v2": [
            {"name": "Host", "type": "string", "jsonPath": ".spec.host"},
            {"name": "Port", "type": "string", "jsonPath": ".spec.port"},
        ],
    }
    selectable = {"v1": ".spec.hostPort", "v2": ".spec.host"}
    webhook = {"clientConfig": {"url": URL}, "conversionReviewVersions": ["v1"], **conversion}
    versions = [
        custom_resources.version(
            name,
            schemas[name],
            storage=name == storage,
            subresources={"status": {}, "scale": scales[name]},
            additionalPrinterColumns=columns[name],
            selectableFields=[{"jsonPath": selectable[name]}],
        )
        for name in ("v1", "v2")
    ]
    return custom_resources.definition("Thing", *versions, conversion={"strategy": "Webhook", "webhook": webhook})


def v1_thing(name: str = "a", host_port: str = "h:1", **more: Any) -> Object:
    meta = {"name": name, **more.pop("metadata", {})}
    spec = {"hostPort": host_port, **more}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": meta, "spec": spec}


def v2_thing(name: str = "a", host: str = "h", port: str = "1", **more: Any) -> Object:
    meta = {"name": name, **more.pop("metadata", {})}
    spec = {"host": host, "port": port, **more}
    return {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": meta, "spec": spec}


def convert(obj: Object, target: str) -> Object:
    """Convert one object, as the webhook."""
    obj = copy.deepcopy(obj)
    spec = obj.get("spec") or {}
    if target == "example.com/v2":
        if "hostPort" in spec:
            spec["host"], _colon, spec["port"] = spec.pop("hostPort").partition(":")
        renames = (("replicas", "count"),)
    else:
        if "host" in spec:
            spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', '')}"
        renames = (("count", "replicas"),)
    for part in (spec, obj.get("status") or {}):
        for old, new in renames:
            if old in part:
                part[new] = part.pop(old)
    obj["apiVersion"] = target
    return obj


Respond = Callable[[Object], Object]
"""A function from the ``request`` to the ``response`` of a review."""


def good(request: Object) -> Object:
    objects = [convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    return {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}


class Hook:
    """A stub webhook that records its requests."""

    def __init__(self, api: Api, answer: Respond = good) -> None:
        self.answer = answer
        self.requests: list[Object] = []
        self.targets: list[Target] = []
        self.seconds = 0.0
        """The delay of a response."""
        self.failure = ""
        api.server.custom_resources.converter_factory.send = self.send

    async def send(self, target: Target, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        self.targets.append(target)
        self.requests.append(review["request"])
        await asyncio.sleep(self.seconds)
        if self.failure:
            raise CallError(self.failure)
        response = self.answer(review["request"])
        status = response.pop("http", 200)
        answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}
        return status, json.dumps(answer).encode()

    @property
    def calls(self) -> list[tuple[list[str], str]]:
        """The object names and desired version of each call since the last read."""
        requests, self.requests = self.requests, []
        return [
            ([obj["metadata"]["name"] for obj in request["objects"]], request["desiredAPIVersion"].rpartition("/")[2])
            for request in requests
        ]


async def served(api: Api, answer: Respond = good, *, storage: str = "v1", **conversion: Any) -> Hook:
    """Create the definition with its webhook."""
    hook = Hook(api, answer)
    await api.create(DEFINITIONS, definition(storage, **conversion))
    return hook


def spec_of(answer: Answer) -> Object:
    spec: Object = answer.body["spec"]
    return spec


def stored(api: Api, name: str = "a") -> Object:
    """The stored object."""
    record = api.store.staged(f"example.com/things/default/{name}")
    assert record is not None
    document: Object = json.loads(record.value)
    return document


async def store_in(api: Api, version: str) -> None:
    """Change the storage version."""
    crd = (await api.get(DEFINITION)).body
    for item in crd["spec"]["versions"]:
        item["storage"] = item["name"] == version
    assert (await api.put(DEFINITION, crd)).status == 200
