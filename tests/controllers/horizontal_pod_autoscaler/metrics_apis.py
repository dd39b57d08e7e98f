"""Stub metrics APIs: values set by the test, and APIs that the embedded server does not have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from pilothouse.api import wire
from pilothouse.api.usage import ContainerUsage, Usage
from pilothouse.client.interceptor import Answer, Interceptor, Rule
from pilothouse.client.request_info import RequestInfo

Doc = dict[str, Any]
NO_SUCH_PAGE = wire.Response(404, {"content-type": "text/plain; charset=utf-8"}, b"404 page not found\n")


class Meter:
    """Usage by pod, or of all pods, for every container; pods in ``unmeasured`` have no metrics."""

    def __init__(self, cpu: int = 0) -> None:
        self.cpu = cpu
        self.by_pod: dict[str, int] = {}
        self.unmeasured: set[str] = set()

    def containers(self, pod: Mapping[str, Any], share: Mapping[str, int]) -> Sequence[ContainerUsage] | None:
        name = pod["metadata"]["name"]
        if name in self.unmeasured or pod["status"].get("phase") != "Running":
            return None
        cpu = share.get("cpu", self.by_pod.get(name, self.cpu))
        return [ContainerUsage(container["name"], Usage(cpu, 1 << 20)) for container in pod["spec"]["containers"]]

    def node(self, name: str) -> Usage | None:
        return Usage(0, 0)


class MetricsServer:
    """custom.metrics.k8s.io and external.metrics.k8s.io, before an interceptor's server. ``values`` by the path behind
    the version: ``namespaces/default/pods/*/qps``; a function is called for each request."""

    def __init__(self, faults: Interceptor, versions: tuple[str, ...] = ("v1beta2", "v1beta1")) -> None:
        self.values: dict[str, list[Doc] | Callable[[], list[Doc]]] = {}
        self.versions = versions
        self.preferred = ""
        self.requests: list[str] = []
        self._rule = Rule(Answer(NO_SUCH_PAGE), when=self._answer)
        faults.add(self._rule)

    def _answer(self, _call: RequestInfo, request: wire.Request) -> bool:
        split = urlsplit(request.target)
        parts = split.path.split("/")
        if len(parts) < 3 or parts[2] not in ("custom.metrics.k8s.io", "external.metrics.k8s.io"):
            return False
        if len(parts) == 3:
            body: Doc = {"versions": [{"version": version} for version in self.versions]}
            if self.preferred:
                body["preferredVersion"] = {"version": self.preferred}
            self._rule.action = Answer(_json(body) if self.versions else NO_SUCH_PAGE)
            return True
        query = "&".join(f"{name}={values[0]}" for name, values in sorted(parse_qs(split.query).items()))
        self.requests.append(f"{parts[3]} {'/'.join(parts[4:])}{'?' if query else ''}{query}")
        known = self.values.get("/".join(parts[4:]))
        if known is None:
            self._rule.action = Answer(NO_SUCH_PAGE)
        else:
            self._rule.action = Answer(_json({"items": known() if callable(known) else known}))
        return True


def _json(body: Doc) -> wire.Response:
    return wire.Response(200, {"content-type": "application/json"}, msgspec.json.encode(body))
