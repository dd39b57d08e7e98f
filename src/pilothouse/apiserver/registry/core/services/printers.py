"""The printer of Services. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    format_labels,
    nested_field,
    wide,
)


def print_service(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    ips = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    ports = [
        f"{p.get('port')}:{p['nodePort']}/{p.get('protocol', 'TCP')}"
        if p.get("nodePort")
        else f"{p.get('port')}/{p.get('protocol', 'TCP')}"
        for p in spec.get("ports") or ()
    ]
    return [
        spec.get("type", ""),
        ips[0] if ips else NONE,
        _external_ip(value, spec),
        ",".join(ports) or NONE,
        format_labels(spec.get("selector")),
    ]


def _external_ip(value: Doc, spec: Doc) -> str:
    external = list(spec.get("externalIPs") or ())
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = nested_field(value, "status", "loadBalancer", "ingress") or ()
            external_ips = sorted({i.get("ip") or i.get("hostname") or "" for i in ingress} - {""}) + external
            return ",".join(external_ips) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


PRINTER = Printer(
    (NAME, *columns("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")),
    print_service,
)
