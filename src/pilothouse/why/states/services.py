"""Services without endpoints."""

from typing import Any

from pilothouse.why.evidence import Document, newest_spec_changes
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import STATE, Step, pluralize
from pilothouse.why.view import Finding, View, condition

_SHOWN = 5


async def service(view: View) -> Finding | None:
    """A Service without ready endpoints: because of its selector, or the pods that it selects."""
    spec = view.spec
    if spec.get("type") == "ExternalName":
        return None
    slices = [
        endpointslice
        for endpointslice in await view.evidence.objects("endpointslices.discovery.k8s.io", view.reference.namespace)
        if ((endpointslice.get("metadata") or {}).get("labels") or {}).get("kubernetes.io/service-name")
        == view.reference.name
    ]
    needs_ports = bool(spec.get("ports")) and spec.get("clusterIP") != "None"
    ready = sum(_ready_addresses(slice_) for slice_ in slices if slice_.get("ports") or not needs_ports)
    if ready:
        return await _load_balancer(view)
    selector = spec.get("selector")
    if not selector:
        text = "has no selector, so no controller makes its EndpointSlices, and there is none with an address"
        return Finding("no endpoints", (view.step(text, root=STATE),))
    pods = await view.evidence.objects("pods", view.reference.namespace)
    selected = [pod for pod in pods if selector.items() <= ((pod["metadata"].get("labels")) or {}).items()]
    if not selected and view.is_unlisted("pods"):
        step = view.step(
            f"has no endpoints, and the pods that it selects ({_text(selector)}) can't be read", root=STATE
        )
        return Finding("no endpoints", (step,))
    if not selected:
        return Finding("no endpoints", (await _no_selected_pods(view, selector, pods),))
    unready = [pod for pod in selected if condition(pod, "Ready").get("status") != "True"]
    if len(unready) < len(selected):
        ready_pods = [pod for pod in selected if pod not in unready]
        if all(pod["metadata"].get("deletionTimestamp") for pod in ready_pods):
            step = view.step(f"selects {pluralize(len(ready_pods), 'ready pod')}, all of them terminating", root=STATE)
            step.because = [await _unready_pod_step(view, pod) for pod in ready_pods[:_SHOWN]]
            return Finding("no endpoints", (step,))
        return Finding("no endpoints", (await _without_ports(view, ready_pods),))
    step = view.step(f"selects {pluralize(len(selected), 'pod')}, and none of them is ready", root=STATE)
    step.because = [await _unready_pod_step(view, pod) for pod in unready[:_SHOWN]]
    return Finding("no endpoints", (step,))


async def _without_ports(view: View, pods: list[Document]) -> Step:
    """Ready pods are selected, but none has the named target port."""
    names = [
        str(port["targetPort"]) for port in view.spec.get("ports") or () if isinstance(port.get("targetPort"), str)
    ]
    if not names:
        return view.step("selects ready pods, which its EndpointSlices do not have yet", root=STATE)
    step = view.step(f"selects ready pods, and none of them has a container port named {', '.join(names)}", root=STATE)
    step.table = [_ports_line(pods[0])]
    changes = [step for step in (await _port_removed(view, pods[0], set(names)), await last_change(view)) if step]
    step.because = sorted(changes, key=lambda step: step.time)[-1:]
    return step


def _ports_line(pod: Document) -> str:
    ports = [
        f"{container_port.get('name') or '(no name)'} ({container_port.get('containerPort')})"
        for container_port in _container_ports(pod["spec"])
    ]
    return f"pod {pod['metadata']['name']} has {'the ports ' + ', '.join(ports) if ports else 'no ports'}"


def _container_ports(spec: Document) -> list[dict[str, Any]]:
    return [port for container in spec.get("containers") or () for port in container.get("ports") or ()]


async def _port_removed(view: View, pod: Document, names: set[str]) -> Step | None:
    """The change that removed the ports from the pod template of the workload."""
    workload = await workload_of(view.of("pods", pod["metadata"]["name"], pod))
    if workload is None:
        return None
    for change in reversed(newest_spec_changes(view.evidence, await workload.changes())):
        old, new = await view.evidence.before(change), await view.evidence.after(change)
        if names & _template_ports(old) and not names & _template_ports(new):
            return await view.chain.step(change)
    return None


def _template_ports(workload: Document | None) -> set[str]:
    template = ((workload or {}).get("spec") or {}).get("template") or {}
    return {str(container_port.get("name")) for container_port in _container_ports(template.get("spec") or {})}


async def endpoint_slice(view: View) -> Finding | None:
    """An EndpointSlice of a Service without ready endpoints: the Service's finding."""
    name = (view.metadata.get("labels") or {}).get("kubernetes.io/service-name") or ""
    return await _service_finding(view, name)


async def endpoints(view: View) -> Finding | None:
    """The Endpoints of a Service without ready endpoints: the Service's finding."""
    return await _service_finding(view, view.reference.name)


async def _service_finding(view: View, name: str) -> Finding | None:
    service_view = await view.read("services", name) if name else None
    finding = await service(service_view) if service_view is not None and service_view.now is not None else None
    return finding if finding is not None and finding.state == "no endpoints" else None


def _ready_addresses(endpoint_slice: Document) -> int:
    return sum(
        len(endpoint.get("addresses") or ())
        for endpoint in endpoint_slice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    )


async def _no_selected_pods(view: View, selector: dict[str, str], pods: list[Document]) -> Step:
    step = view.step(f"selects {_text(selector)}, and no pod in the namespace has these labels", root=STATE)
    step.because = await _without_replicas(view, selector)
    if step.because:
        return step
    # A pod that differs in one label was probably meant.
    for pod in pods:
        labels = (pod["metadata"].get("labels")) or {}
        differing = {key: labels.get(key) for key in selector if labels.get(key) != selector[key]}
        if len(differing) == 1 and (len(selector) > 1 or next(iter(differing)) in labels):
            key, value = next(iter(differing.items()))
            step.table.append(f"pod {pod['metadata']['name']} has {key}={value or '(absent)'}")
        if len(step.table) >= _SHOWN:
            break
    change = await last_change(view)
    step.because += [change] if change is not None else []
    return step


def _text(selector: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


async def _without_replicas(view: View, selector: dict[str, str]) -> list[Step]:
    """Workloads with 0 replicas whose pods the Service would select."""
    steps: list[Step] = []
    for resource in ("deployments.apps", "statefulsets.apps"):
        for document in await view.evidence.objects(resource, view.reference.namespace):
            workload = view.of(resource, document["metadata"]["name"], document)
            template = (workload.spec.get("template") or {}).get("metadata") or {}
            if workload.spec.get("replicas") == 0 and selector.items() <= (template.get("labels") or {}).items():
                step = workload.step("would have such pods, and spec.replicas is 0", root=STATE)
                change = await last_change(workload)
                step.because = [change] if change is not None else []
                steps.append(step)
                if len(steps) >= _SHOWN:
                    return steps
    return steps


async def _unready_pod_step(view: View, pod: Document) -> Step:
    pod_view = view.of("pods", pod["metadata"]["name"], pod)
    finding = await pod_view.finding()
    step = pod_view.step(f"is {finding.state}", root=STATE)
    step.because = list(finding.steps)
    return step


async def _load_balancer(view: View) -> Finding | None:
    """A Service of type LoadBalancer without an address."""
    if view.spec.get("type") != "LoadBalancer" or (view.status.get("loadBalancer") or {}).get("ingress"):
        return None
    events = [event for event in await view.evidence.events(view.reference, view.uid) if event.type == "Warning"]
    if view.spec.get("loadBalancerClass"):
        text = f"waits for a controller of the loadBalancerClass {view.spec['loadBalancerClass']}"
    elif events:
        text = f"has no address: {events[-1].reason}: {events[-1].message}"
    else:
        text = "has no address: nothing assigns addresses to load balancers in this cluster"
    return Finding("no address", (view.step(text, root=STATE),))
