"""Services: defaults and the checks that do not need an address pool.

After kubernetes' ``pkg/apis/core/v1/defaults.go`` and ``pkg/registry/core/service`` (v1.36). Cluster addresses are
given by ``addresses.ServiceAddresses``, which runs as admission because it has to look at all services.
"""

from collections.abc import Iterable

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.pod_templates import PORT_RANGE
from pilothouse.apiserver.strategies.warnings import service_warnings
from pilothouse.machinery.names import dns_label_errors

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


class ServiceStrategy(Strategy):
    """Fields that the client leaves out on update stay as allocated."""

    selectable = {  # read only
        "spec.clusterIP": ("spec", "clusterIP"),
        "spec.type": ("spec", "type"),
    }
    empty_status = {"loadBalancer": {}}  # read only
    name_problems = staticmethod(dns_label_errors)

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "ClientIP" and not spec.get("sessionAffinityConfig"):
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 10800}}
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in (None, "", 0):
                port["targetPort"] = port.get("port")
        kind = spec["type"]
        if kind != "ExternalName" and not spec.get("internalTrafficPolicy"):
            spec["internalTrafficPolicy"] = "Cluster"
        if (kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs")) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True

    def warnings(self, obj: Object) -> Iterable[str]:
        return service_warnings(obj["spec"])

    def prepare_update(self, obj: Object, old: Object) -> None:
        spec, before = obj["spec"], old["spec"]
        if spec["type"] == "ExternalName":
            return
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
        numbers = {port.get("name") or "": port.get("nodePort") for port in before.get("ports") or ()}
        if spec["type"] != "ClusterIP":
            for port in spec.get("ports") or ():
                known = numbers.get(port.get("name") or "")
                if not port.get("nodePort") and known:
                    port["nodePort"] = known

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        kind, ports = spec["type"], spec.get("ports") or []
        if kind not in _TYPES:
            problems.append(errors.not_supported("spec.type", kind, _TYPES))
        if not ports and spec.get("clusterIP") != "None" and kind != "ExternalName":
            problems.append(errors.required("spec.ports"))
        if kind == "ExternalName" and not spec.get("externalName"):
            problems.append(errors.required("spec.externalName"))
        names: set[str] = set()
        for position, port in enumerate(ports):
            path = f"spec.ports[{position}]"
            name, number = port.get("name") or "", port.get("port") or 0
            if not name and len(ports) > 1:
                problems.append(errors.required(f"{path}.name"))
            elif name:
                problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_label_errors(name)]
                if name in names:
                    problems.append(errors.duplicate(f"{path}.name", name))
                names.add(name)
            if not 1 <= number <= 65535:
                problems.append(errors.invalid_value(f"{path}.port", number, PORT_RANGE))
            if kind == "ClusterIP" and port.get("nodePort"):
                problems.append(errors.not_allowed(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = self.validate(obj)
        before, after = old["spec"].get("clusterIPs") or [], obj["spec"].get("clusterIPs") or []
        if before and obj["spec"]["type"] != "ExternalName" and after[:1] != before[:1]:
            problems.append(errors.invalid_value("spec.clusterIPs[0]", after, "may not change once set"))
        return problems

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"
