"""NetworkPolicies: which peers pods may talk to, and on which ports.

After kubernetes' ``pkg/apis/networking/{v1/defaults.go,validation}`` (v1.36).
"""

from collections.abc import Collection, Iterator

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import PORT_RANGE, child, fill
from pilothouse.apiserver.strategies.network_forms import network_faults, sloppy_network
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import port_name_errors

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")
_PEERS = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    """Policies say which directions they are about."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        child(spec, "podSelector")
        for field in ("ingress", "egress"):
            for rule in spec.get(field) or ():
                for port in rule.get("ports") or ():
                    fill(port, {"protocol": "TCP"})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: Object) -> list[FieldError]:
        return _policy_problems(obj["spec"], ())

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        # What was allowed before ranges were read strictly stays allowed.
        return _policy_problems(obj["spec"], set(_ranges(old["spec"]))) * self.judgements.spec


def _ranges(spec: Object) -> Iterator[str]:
    for field, peers in _PEERS:
        for rule in spec.get(field) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                yield block.get("cidr") or ""
                yield from block.get("except") or ()


def _policy_problems(spec: Object, known: Collection[str]) -> list[FieldError]:
    problems = selector_problems(spec.get("podSelector") or {}, "spec.podSelector")
    for field, peers in _PEERS:
        for position, rule in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{position}]"
            for index, port in enumerate(rule.get("ports") or ()):
                problems += _policy_port_problems(port, f"{path}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or ()):
                problems += _peer_problems(peer, f"{path}.{peers}[{index}]", known)
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        text = "may not specify more than two policyTypes"
        return [*problems, errors.invalid_value("spec.policyTypes", kinds, text)]
    return problems + [
        errors.not_supported(f"spec.policyTypes[{position}]", kind, _POLICY_TYPES)
        for position, kind in enumerate(kinds)
        if kind not in _POLICY_TYPES
    ]


def _policy_port_problems(port: Object, path: str) -> list[FieldError]:
    number, end = port.get("port"), port.get("endPort")
    problems: list[FieldError] = []
    if port.get("protocol") not in _PROTOCOLS:
        problems.append(errors.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    if isinstance(number, int):
        if not 1 <= number <= 65535:
            problems.append(errors.invalid_value(f"{path}.port", number, PORT_RANGE))
        if end is not None and end < number:
            text = "must be greater than or equal to `port`"
            problems.append(errors.invalid_value(f"{path}.endPort", end, text))
        if end is not None and not 1 <= end <= 65535:
            problems.append(errors.invalid_value(f"{path}.endPort", end, PORT_RANGE))
        return problems
    if end is not None:
        text = "may not be specified when `port` is " + ("not specified" if number is None else "non-numeric")
        problems.append(errors.invalid_value(f"{path}.endPort", end, text))
    if number is not None:
        problems += [errors.invalid_value(f"{path}.port", number, text) for text in port_name_errors(number)]
    return problems


def _peer_problems(peer: Object, path: str, known: Collection[str]) -> list[FieldError]:
    problems: list[FieldError] = []
    selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
    for field in selectors:
        problems += selector_problems(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        problems += _block_problems(block, f"{path}.ipBlock", known)
        if selectors:
            problems.append(errors.not_allowed(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        problems.append(errors.required(path, "must specify a peer"))
    return problems


def _range_problems(text: str, path: str, known: Collection[str]) -> list[FieldError]:
    if text in known:
        return []
    return [errors.invalid_value(path, text, fault) for fault in network_faults(text)]


def _block_problems(block: Object, path: str, known: Collection[str]) -> list[FieldError]:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [errors.required(f"{path}.cidr")]
    problems = _range_problems(cidr, f"{path}.cidr", known)
    network = sloppy_network(cidr)
    if network is None:
        return problems
    for index, left_out in enumerate(block.get("except") or ()):
        where, inner = f"{path}.except[{index}]", sloppy_network(left_out)
        problems += _range_problems(left_out, where, known)
        if inner is None:
            continue
        if inner.version != network.version or inner.prefixlen <= network.prefixlen or inner[0] not in network:
            problems.append(errors.invalid_value(where, left_out, "must be a strict subset of `cidr`"))
    return problems
