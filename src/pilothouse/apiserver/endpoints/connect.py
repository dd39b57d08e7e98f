"""exec, attach, port-forward and proxy: rejected with an explanation, since simulated nodes run no processes.

The checks that upstream makes before it connects to a kubelet are made here too (``pkg/registry/core/pod/strategy.go``,
``pkg/registry/core/{service,node}/storage``, v1.36), with its messages.
"""

from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.logs import check_node, container_of, stored_pod
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.results import RawResult
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.nodes import without_process
from pilothouse.storage import Record

_MAX_PORT = 65535
_MAX_DIGITS = 20


async def connect_pod(core: Core, call: Call) -> RawResult:
    """exec, attach and portforward."""
    subresource = call.request_info.subresource
    options = await _admitted_options(core, call)
    pod = stored_pod(core, call)
    if subresource != "portforward":
        container_of(pod, call.name, options.get("container") or "")
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        raise errors.bad_request(f"pod {call.name} does not have a host assigned")
    check_node(core, node)
    if "upgrade" not in call.request.headers.get("connection", "").lower():
        raise errors.bad_request("Upgrade request required")
    raise _not_implemented(subresource, without_process(call.name, node))


async def proxy_pod(core: Core, call: Call) -> RawResult:
    """pods/[SCHEME:]NAME[:PORT]/proxy."""
    await _admitted_options(core, call)
    _scheme, name, _port = _split_scheme_name_port(call.name)
    pod_call = Call(call.request, call.request_info, call.info, call.strategy, call.identity, call.namespace, name)
    pod = stored_pod(core, pod_call)
    if not (pod.get("status") or {}).get("podIP"):
        raise errors.bad_request("address not allowed")
    raise _unreachable(f'pod "{name}" is simulated and listens on no port')


async def proxy_service(core: Core, call: Call) -> RawResult:
    """services/[SCHEME:]NAME[:PORT]/proxy."""
    await _admitted_options(core, call)
    _scheme, name, _port = _split_scheme_name_port(call.name)
    _get_or_not_found(core, call.info, call.namespace, name)
    slices = core.table.built_in("discovery.k8s.io", "endpointslices")
    label = b'"kubernetes.io/service-name":' + field_errors.format_value(name).encode()
    for record in core.store.list(slices.list_prefix(call.namespace)).records:
        if label in record.value and b'"ready":true' in record.value:
            raise _unreachable(f'the endpoints of service "{name}" are simulated and listen on no port')
    raise StatusError(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')


async def proxy_node(core: Core, call: Call) -> RawResult:
    """nodes/[SCHEME:]NAME[:PORT]/proxy."""
    await _admitted_options(core, call)
    _scheme, name, _port = _split_scheme_name_port(call.name)
    _get_or_not_found(core, call.info, "", name)
    raise _unreachable(f'node "{name}" is simulated and has no kubelet that listens')


async def _admitted_options(core: Core, call: Call) -> Object:
    """The options of the request (PodExecOptions, ServiceProxyOptions, …), after admission."""
    request_info = call.request_info
    if request_info.query.first("dryRun"):
        raise errors.bad_request("dryRun is not supported")
    sub = request_info.sub
    assert sub is not None, "connect serves subresources"
    options: Object = {"kind": sub.kind, "apiVersion": "v1", **_read_options(request_info)}
    write = AdmissionAttributes(
        operation="CONNECT",
        info=call.info,
        namespace=call.namespace,
        name=call.name,
        identity=call.identity,
        subresource=request_info.subresource,
        obj=options,
        warnings=call.warnings,
    )
    await core.admission.admit(write)
    await core.admission.validate(write)
    return options


def _read_options(request_info: RequestInfo) -> Object:
    query = request_info.query
    match request_info.subresource:
        case "exec" | "attach":
            values: Object = {name: query.flag(name) for name in ("stdin", "stdout", "stderr", "tty")}
            values["container"] = query.first("container")
            if request_info.subresource == "exec":
                values["command"] = query.get("command")
        case "portforward":
            values = {"ports": [_port_number(port) for text in query.get("ports") or () for port in text.split(",")]}
        case _:
            path = "/".join(("", *request_info.trailing_segments)) if request_info.trailing_segments else ""
            if request_info.path.endswith("/") and not path.endswith("/"):
                path += "/"
            values = {"path": path}
    return {name: value for name, value in values.items() if value}


def _port_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise errors.bad_request(f"cannot convert to []int32: strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    if len(text) > _MAX_DIGITS or int(text) > _MAX_PORT:
        reason = f"strconv.ParseUint: parsing {quote(text)}: value out of range"
        raise errors.bad_request(f"cannot convert to []int32: {reason}")
    return int(text)


def _get_or_not_found(core: Core, info: ResourceInfo, namespace: str, name: str) -> Record:
    record = core.store.get(info.key(namespace, name))
    if record is None:
        raise errors.not_found(info, name)
    return record


def _split_scheme_name_port(text: str) -> tuple[str, str, str]:
    """Scheme, name and port of a proxy path (apimachinery ``util/net.SplitSchemeNamePort``)."""
    segments = text.split(":")
    match segments:
        case [name]:
            return "", name, ""
        case [name, port]:
            return "", name, port
        case [scheme, name, port] if scheme in ("", "http", "https"):
            return scheme, name, port
    raise errors.bad_request(f"invalid pod request {field_errors.format_value(text)}")


def _not_implemented(subresource: str, reason: str) -> StatusError:
    return StatusError(501, "NotImplemented", f"{subresource} is not possible: {reason}", details={})


def _unreachable(reason: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", f"error trying to reach service: {reason}")
