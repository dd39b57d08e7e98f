"""Validation of NetworkPolicies. After kubernetes' ``pkg/apis/networking/validation/validation.go`` (v1.36)."""

from collections.abc import Collection

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import parse_cidr_sloppy, validate_cidr_for_legacy_field
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE
from pilothouse.machinery.names import port_name_errors

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")


PEERS = (("ingress", "from"), ("egress", "to"))


def validate_network_policy_spec(spec: Object, valid_old_cidrs: Collection[str]) -> ErrorList:
    """``ValidateNetworkPolicySpec``. ``valid_old_cidrs``: CIDRs of the stored object, which are accepted."""
    errors = validate_label_selector(spec.get("podSelector") or {}, "spec.podSelector")
    for field, peers in PEERS:
        for position, rule in enumerate(spec.get(field) or ()):
            path = f"spec.{field}[{position}]"
            for index, port in enumerate(rule.get("ports") or ()):
                errors += _validate_network_policy_port(port, f"{path}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or ()):
                errors += _validate_network_policy_peer(peer, f"{path}.{peers}[{index}]", valid_old_cidrs)
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        return [*errors, invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    return errors + [
        not_supported(f"spec.policyTypes[{position}]", kind, _POLICY_TYPES)
        for position, kind in enumerate(kinds)
        if kind not in _POLICY_TYPES
    ]


def _validate_network_policy_port(port: Object, path: str) -> ErrorList:
    number, end = port.get("port"), port.get("endPort")
    errors: ErrorList = []
    if port.get("protocol") not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    if isinstance(number, int):
        if not 1 <= number <= 65535:
            errors.append(invalid(f"{path}.port", number, PORT_RANGE))
        if end is not None and end < number:
            # Upstream reports the value of ``port``.
            errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
        if end is not None and not 1 <= end <= 65535:
            errors.append(invalid(f"{path}.endPort", end, PORT_RANGE))
        return errors
    if end is not None:
        detail = "may not be specified when `port` is " + ("not specified" if number is None else "non-numeric")
        errors.append(invalid(f"{path}.endPort", end, detail))
    if number is not None:
        errors += [invalid(f"{path}.port", number, msg) for msg in port_name_errors(number)]
    return errors


def _validate_network_policy_peer(peer: Object, path: str, valid_old_cidrs: Collection[str]) -> ErrorList:
    errors: ErrorList = []
    selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
    for field in selectors:
        errors += validate_label_selector(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        errors += _validate_ip_block(block, f"{path}.ipBlock", valid_old_cidrs)
        if selectors:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        errors.append(required(path, "must specify a peer"))
    return errors


def _validate_ip_block(block: Object, path: str, valid_old_cidrs: Collection[str]) -> ErrorList:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [required(f"{path}.cidr")]
    errors = validate_cidr_for_legacy_field(cidr, f"{path}.cidr", valid_old_cidrs)
    network = parse_cidr_sloppy(cidr)
    if network is None:
        return errors
    for index, except_cidr in enumerate(block.get("except") or ()):
        child_path, except_network = f"{path}.except[{index}]", parse_cidr_sloppy(except_cidr)
        errors += validate_cidr_for_legacy_field(except_cidr, child_path, valid_old_cidrs)
        if except_network is None:
            continue
        if (
            except_network.version != network.version
            or except_network.prefixlen <= network.prefixlen
            or except_network[0] not in network
        ):
            errors.append(invalid(child_path, except_cidr, "must be a strict subset of `cidr`"))
    return errors
