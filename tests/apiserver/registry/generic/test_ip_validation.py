"""Validation of EndpointSlices, Ingresses, NetworkPolicies, ServiceCIDRs and RuntimeClasses (kubernetes
``pkg/apis/{discovery,networking}/validation``, v1.36)."""

from typing import Any

from tests.apiserver.api import Api, Object, errors_of, errors_of_create
from tests.apiserver.pod_bodies import LABEL, SUBDOMAIN
from tests.tables import cases

from pilothouse.apiserver.registry.generic.ip_validation import cidr_errors, ip_errors

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
NETWORKING = "/apis/networking.k8s.io/v1/"
INGRESSES, POLICIES = NETWORKING + "namespaces/default/ingresses", NETWORKING + "namespaces/default/networkpolicies"
CLASSES, RANGES = NETWORKING + "ingressclasses", NETWORKING + "servicecidrs"
ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
WILDCARD = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    "regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
BACKEND: Object = {"service": {"name": "s", "port": {"number": 80}}}
PATH: Object = {"path": "/", "pathType": "Prefix", "backend": BACKEND}


@cases(
    "value, errors",
    {
        "address": ("10.0.0.1", []),
        "not canonical": ("FE80:0:0:0:0:0:0:0abc", []),
        "not an address": ("10.0.0", [ADDRESS]),
        "leading zeros": ("010.000.0.1", ["must not have leading 0s"]),
        "IPv4-mapped": ("::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"]),
    },
)
def test_addresses(value: str, errors: list[str]) -> None:
    assert list(ip_errors(value)) == errors


@cases(
    "value, errors",
    {
        "range": ("10.0.0.0/8", []),
        "without prefix length": ("10.0.0.0", [RANGE]),
        "prefix length too large": ("10.0.0.0/33", [RANGE]),
        "leading zeros": ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        "bits beyond the prefix length": ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
        "IPv4-mapped": ("::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
    },
)
def test_ranges(value: str, errors: list[str]) -> None:
    assert list(cidr_errors(value)) == errors


def _slice(kind: str = "IPv4", **endpoint: Any) -> Object:
    return {"addressType": kind, "endpoints": [{"addresses": ["10.0.0.1"], **endpoint}]}


@cases(
    "obj, expected",
    {
        "addresses": (
            _slice(addresses=["2001:db8::1", "010.0.0.1", "127.0.0.1"]),
            [
                'endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address',
                'endpoints[0].addresses[1]: Invalid value: "010.0.0.1": must not have leading 0s',
                'endpoints[0].addresses[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, '
                "::1/128)",
            ],
        ),
        "FQDN addresses": (
            _slice("FQDN", addresses=["a.example.com.", "a", "a..b", "a." + "b" * 64]),
            [
                'endpoints[0].addresses[1]: Invalid value: "a": should be a domain with at least two segments '
                "separated by dots",
                f'endpoints[0].addresses[2]: Invalid value: "a..b": {SUBDOMAIN}',
                f'endpoints[0].addresses[3]: Invalid value: "{"b" * 64}": must be no more than 63 characters',
            ],
        ),
        "too many addresses": (
            _slice(addresses=["10.0.0.1"] * 101),
            ["endpoints[0].addresses: Too many: 101: must have at most 100 items"],
        ),
        "nodeName and hostname": (
            _slice(nodeName="A", hostname="a.b"),
            [
                f'endpoints[0].nodeName: Invalid value: "A": {SUBDOMAIN}',
                'endpoints[0].hostname: Invalid value: "a.b": must not contain dots',
            ],
        ),
        "hints": (
            _slice(hints={"forZones": [{"name": "a"}, {"name": "a"}], "forNodes": [{"name": "A"}]}),
            [
                'endpoints[0].hints.forZones[1].name: Duplicate value: "a"',
                f'endpoints[0].hints.forNodes[0].name: Invalid value: "A": {SUBDOMAIN}',
            ],
        ),
        "too many hints": (
            _slice(hints={"forZones": [{"name": f"z{number}"} for number in range(9)]}),
            ["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"],
        ),
        "ports": (
            {"addressType": "Odd", "ports": [{"name": "a"}, {"name": "a", "protocol": "Odd"}, {"name": "A"}]},
            [
                'addressType: Unsupported value: "Odd": supported values: "FQDN", "IPv4", "IPv6"',
                'ports[1].name: Duplicate value: "a"',
                'ports[1].protocol: Unsupported value: "Odd": supported values: "SCTP", "TCP", "UDP"',
                f'ports[2].name: Invalid value: "A": {LABEL}',
            ],
        ),
    },
)
async def test_slices(api: Api, obj: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, SLICES, **obj) == expected


async def test_slice_port_numbers_are_not_validated_and_topology_is_dropped(api: Api) -> None:
    obj = {**_slice(deprecatedTopology={"a": "b"}), "ports": [{"port": 70000}]}
    assert (await api.create(SLICES, {"metadata": {"name": "x"}, **obj}))["endpoints"] == [
        {"addresses": ["10.0.0.1"], "conditions": {}}
    ]


def _ingress(*paths: Object, host: str = "", **fields: Any) -> Object:
    return {"spec": {"rules": [{"host": host, "http": {"paths": list(paths or (PATH,))}}], **fields}}


@cases(
    "obj, expected",
    {
        "relative path": (
            _ingress({**PATH, "pathType": "ImplementationSpecific", "path": "a"}),
            ['spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path'],
        ),
        "invalid names, in upstream's order": (
            _ingress(host="*.A", tls=[{"secretName": "S", "hosts": ["a*"]}], ingressClassName="C"),
            [
                f'spec.rules[0].host: Invalid value: "*.A": {WILDCARD}',
                f'spec.tls[0].hosts[0]: Invalid value: "a*": {WILDCARD}',
                f'spec.tls[0].secretName: Invalid value: "S": {SUBDOMAIN}',
                f'spec.ingressClassName: Invalid value: "C": {SUBDOMAIN}',
            ],
        ),
        "different annotation and ingressClassName": (
            {
                **_ingress(ingressClassName="a"),
                "metadata": {"name": "x", "annotations": {"kubernetes.io/ingress.class": "b"}},
            },
            [
                'annotations.kubernetes.io/ingress.class: Invalid value: "b": must match `ingressClassName` when both '
                "are specified"
            ],
        ),
    },
)
async def test_ingresses(api: Api, obj: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, INGRESSES, **obj) == expected


async def test_ingress_status(api: Api) -> None:
    await api.create(INGRESSES, {"metadata": {"name": "x"}, **_ingress()})
    ingress = [{"ip": "01.2.3.4"}, {"hostname": "1.2.3.4"}, {"ip": "x"}]
    assert errors_of(await api.patch(INGRESSES + "/x/status", {"status": {"loadBalancer": {"ingress": ingress}}})) == [
        'status.loadBalancer.ingress[0].ip: Invalid value: "01.2.3.4": must not have leading 0s',
        'status.loadBalancer.ingress[1].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address',
        f'status.loadBalancer.ingress[2].ip: Invalid value: "x": {ADDRESS}',
    ]


@cases(
    "spec, expected",
    {
        "invalid controller": (
            {"controller": "A/b c"},
            [
                f'controller: Invalid value: "A": {SUBDOMAIN}',
                'controller: Invalid value: "b c": Invalid path (regex used for validation is '
                "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
            ],
        ),
        "invalid parameters": (
            {"controller": "a/b", "parameters": {"apiGroup": "A", "kind": "a/b", "name": "n", "scope": "Odd"}},
            [
                f'parameters.apiGroup: Invalid value: "A": {SUBDOMAIN}',
                "parameters.kind: Invalid value: \"a/b\": may not contain '/'",
                'parameters.scope: Unsupported value: "Odd": supported values: "Cluster", "Namespace"',
            ],
        ),
        "parameters without namespace": (
            {"controller": "a/b", "parameters": {"kind": "k", "name": "n", "scope": "Namespace"}},
            ["parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
        ),
    },
)
async def test_ingress_classes(api: Api, spec: Object, expected: list[str]) -> None:
    assert await errors_of_create(api, CLASSES, spec=spec) == [f"spec.{error}" for error in expected]


@cases(
    "rule, expected",
    {
        "ports": (
            {"ports": [{"port": 80, "endPort": 70000}, {"port": "A_", "endPort": 1}, {"port": 80, "endPort": 79}]},
            [
                "ports[0].endPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "ports[1].endPort: Invalid value: 1: may not be specified when `port` is non-numeric",
                'ports[1].port: Invalid value: "A_": must contain only alpha-numeric characters (a-z, 0-9), and '
                "hyphens (-)",
                'ports[1].port: Invalid value: "A_": must contain at least one letter (a-z)',
                "ports[2].endPort: Invalid value: 80: must be greater than or equal to `port`",
            ],
        ),
        "peers": (
            {"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.1/8", "except": ["x", "10.0.0.0/8"]}}]},
            [
                'from[0].ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length',
                f'from[0].ipBlock.except[0]: Invalid value: "x": {RANGE}',
                'from[0].ipBlock.except[1]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`',
                "from[0]: Forbidden: may not specify both ipBlock and another peer",
            ],
        ),
    },
)
async def test_network_policies(api: Api, rule: Object, expected: list[str]) -> None:
    errors = await errors_of_create(api, POLICIES, spec={"podSelector": {}, "ingress": [rule]})
    assert errors == [f"spec.ingress[0].{error}" for error in expected]


async def test_existing_cidrs_are_kept(api: Api) -> None:
    rule = {"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    await api.create(POLICIES, {"metadata": {"name": "x"}, "spec": {"podSelector": {}, "ingress": [rule]}})
    await api.rewrite("networking.k8s.io/networkpolicies/default/x", "10.0.0.0/8", "10.0.0.9/8")
    assert (await api.patch(POLICIES + "/x", {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}})).status == 200


@cases(
    "cidrs, expected",
    {
        "two ranges of one family": (
            ["10.0.0.0/8", "11.0.0.0/8"],
            [
                'spec.cidrs: Invalid value: ["10.0.0.0/8","11.0.0.0/8"]: may specify no more than one IP for each IP '
                "family, i.e 192.168.0.0/24 and 2001:db8::/64"
            ],
        ),
        "three ranges": (
            ["a", "b", "c"],
            ['spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values'],
        ),
        "not canonical": (
            ["2001:DB8::/64"],
            ['spec.cidrs[0]: Invalid value: "2001:DB8::/64": must be in canonical form ("2001:db8::/64")'],
        ),
    },
)
async def test_service_cidrs(api: Api, cidrs: list[str], expected: list[str]) -> None:
    assert await errors_of_create(api, RANGES, spec={"cidrs": cidrs}) == expected


async def test_ip_addresses(api: Api) -> None:
    parent = {"group": "A", "resource": "a/b", "name": ""}
    obj = {"metadata": {"name": "010.0.0.1"}, "spec": {"parentRef": parent}}
    assert await errors_of_create(api, NETWORKING + "ipaddresses", **obj) == [
        'metadata.name: Invalid value: "010.0.0.1": must not have leading 0s',
        f'spec.parentRef.group: Invalid value: "A": {SUBDOMAIN}',
        "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'",
        "spec.parentRef.name: Required value",
    ]


async def test_runtime_class_scheduling(api: Api) -> None:
    errors = await errors_of_create(
        api, "/apis/node.k8s.io/v1/runtimeclasses", handler="h", scheduling={"nodeSelector": {"a": "b c"}}
    )
    assert [error.partition(": ")[0] for error in errors] == ["scheduling.nodeSelector"]
