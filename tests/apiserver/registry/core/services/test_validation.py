"""Validation of Services and load balancer statuses (kubernetes ``validateService``, ``ValidateServiceUpdate`` and
``ValidateLoadBalancerStatus``, v1.36)."""

# ruff: noqa: E501  # messages are left whole

from typing import Any

from tests.apiserver.api import Answer, Api, Object
from tests.tables import cases

SERVICES = "/api/v1/namespaces/default/services"
LB: Object = {"type": "LoadBalancer"}
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
MODE, HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
BAD_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
BAD_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def _service(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": "s", **({"annotations": annotations} if annotations else {})}
    return {"metadata": meta, "spec": {"ports": [{"port": 80}], **spec}}


def _errors(answer: Answer) -> list[str]:
    causes = (answer.body.get("details") or {}).get("causes") or []
    return [f"{cause['field']}: {cause['message']}" for cause in causes]


@cases(
    "service, errors",
    {
        "invalid external IPs": (
            _service(externalIPs=["010.0.0.1", "::ffff:10.0.0.1", "127.0.0.1", "x", "10.0.0.1"]),
            [
                'spec.externalIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s',
                'spec.externalIPs[1]: Invalid value: "::ffff:10.0.0.1": must not be an IPv4-mapped IPv6 address',
                'spec.externalIPs[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
                f'spec.externalIPs[3]: Invalid value: "x": {BAD_ADDRESS}',
            ],
        ),
        "invalid source ranges": (
            _service(**LB, loadBalancerSourceRanges=[" 10.0.0.0/8 ", "10.0.0.1/8", "x"]),
            [
                'spec.LoadBalancerSourceRanges[1]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length',
                f'spec.LoadBalancerSourceRanges[2]: Invalid value: "x": {BAD_RANGE}',
            ],
        ),
        "source ranges in the annotation": (
            _service({RANGES: "10.0.0.0/8, x"}),
            [
                f"metadata.annotations[{RANGES}]: Forbidden: may only be used when `type` is 'LoadBalancer'",
                f'metadata.annotations[{RANGES}]: Invalid value: "x": {BAD_RANGE}',
            ],
        ),
        "empty annotation for source ranges": (_service({RANGES: " "}, **LB), []),
        "different topology mode and hints": (
            _service({MODE: "Auto", HINTS: "Disabled"}),
            [
                f'metadata.annotations[{MODE}]: Invalid value: "Auto": must match annotations[{HINTS}] when both are specified'
            ],
        ),
        "duplicate ports, after the errors of each port": (
            _service(
                type="NodePort",
                ports=[
                    {"name": "a", "port": 80, "nodePort": 30001},
                    {"name": "b", "port": 80, "nodePort": 30001},
                    {"name": "C", "port": 81, "appProtocol": "a b"},
                ],
            ),
            [
                "spec.ports[2].name: Invalid value: \"C\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.ports[2].appProtocol: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "spec.ports[1].nodePort: Duplicate value: 30001",
                'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
            ],
        ),
        "None with a cluster IP": (
            _service(clusterIP="None", clusterIPs=["None", "10.0.0.9"]),
            [
                'spec.clusterIPs: Invalid value: ["None","10.0.0.9"]: \'None\' must be the first and only value',
            ],
        ),
        "two cluster IPs of one family": (
            _service(clusterIP="10.0.0.9", clusterIPs=["10.0.0.9", "10.0.0.10"]),
            [
                'spec.clusterIPs: Invalid value: ["10.0.0.9","10.0.0.10"]: may specify no more than one IP for each IP family',
            ],
        ),
        "cluster IPs of other families": (
            _service(clusterIP="fd00::1", ipFamilies=["IPv4", "x", "x"]),
            [
                'spec.ipFamilies[1]: Unsupported value: "x": supported values: "IPv4", "IPv6"',
                'spec.ipFamilies[2]: Unsupported value: "x": supported values: "IPv4", "IPv6"',
                'spec.ipFamilies[2]: Duplicate value: "x"',
                'spec.clusterIPs[0]: Invalid value: "fd00::1": expected an IPv4 value as indicated by `ipFamilies[0]`',
            ],
        ),
    },
)
async def test_rejected_services(api: Api, service: Object, errors: list[str]) -> None:
    assert _errors(await api.post(SERVICES, service)) == errors


@cases(
    "spec, change, errors",
    {
        "healthCheckNodePort": (
            {**LB, "externalTrafficPolicy": "Local"},
            {"healthCheckNodePort": 30999},
            ["spec.healthCheckNodePort: Forbidden: field is immutable"],
        ),
        "loadBalancerClass": (
            {**LB, "loadBalancerClass": "a.b/c"},
            {"loadBalancerClass": "a.b/d"},
            ['spec.loadBalancerClass: Invalid value: "a.b/d": may not change once set'],
        ),
    },
)
async def test_immutable_fields(api: Api, spec: Object, change: Object, errors: list[str]) -> None:
    await api.create(SERVICES, _service(**spec))
    assert _errors(await api.patch(f"{SERVICES}/s", {"spec": change})) == errors


BALANCER = "status.loadBalancer.ingress"


@cases(
    "kind, ingress, errors",
    {
        "valid": ("LoadBalancer", [{"ip": "10.0.0.1"}, {"hostname": "a.b"}], []),
        "ClusterIP Service": (
            "ClusterIP",
            [{"ip": "x"}],
            [f"{BALANCER}: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
        ),
        "invalid": (
            "LoadBalancer",
            [
                {"ip": "x"},
                {"ip": "010.0.0.1", "ipMode": "y"},
                {"hostname": "10.0.0.1", "ipMode": "VIP"},
                {"hostname": "A"},
            ],
            [
                f'{BALANCER}[0].ip: Invalid value: "x": {BAD_ADDRESS}',
                f'{BALANCER}[1].ip: Invalid value: "010.0.0.1": must not have leading 0s',
                f'{BALANCER}[1].ipMode: Unsupported value: "y": supported values: "Proxy", "VIP"',
                f"{BALANCER}[2].ipMode: Forbidden: may not be specified when `ip` is not set",
                f'{BALANCER}[2].hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
                f"{BALANCER}[3].hostname: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
    },
)
async def test_load_balancer_status(api: Api, kind: str, ingress: list[Object], errors: list[str]) -> None:
    await api.create(SERVICES, _service(type=kind))
    assert (
        _errors(await api.patch(f"{SERVICES}/s/status", {"status": {"loadBalancer": {"ingress": ingress}}})) == errors
    )
