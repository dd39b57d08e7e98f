"""Services without endpoints."""

from typing import Any

from pilothouse.why.evidence import Document, newest_of_spec
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import STATE, Step, counted
from pilothouse.why.view import Finding, View, condition

_SHOWN = 5


async def service(view: View) -> Finding | None:
    """A Service that leads nowhere: its selector, or the pods that it selects."""
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
    ready = sum(_ready(slice_) for slice_ in slices if slice_.get("ports") or not needs_ports)
    if ready:
        return await _load_balancer(view)
    selector = spec.get("selector")
    if not selector:
        text = "has no selector, so no controller makes its EndpointSlices, and there is none with an address"
        return Finding("no endpoints", (view.step(text, root=STATE),))
    pods = await view.evidence.objects("pods", view.reference.namespace)
    selected = [pod for pod in pods if selector.items() <= ((pod["metadata"].get("labels")) or {}).items()]
    if not selected:
        return Finding("no endpoints", (await _selects_nothing(view, selector, pods),))
    waiting = [pod for pod in selected if condition(pod, "Ready").get("status") != "True"]
    if len(waiting) < len(selected):
        ready_pods = [pod for pod in selected if pod not in waiting]
        return Finding("no endpoints", (await _without_ports(view, ready_pods),))
    step = view.step(f"selects {counted(len(selected), 'pod')}, and none of them is ready", root=STATE)
    step.because = [await _not_ready(view, pod) for pod in waiting[:_SHOWN]]
    return Finding("no endpoints", (step,))


async def _without_ports(view: View, pods: list[Document]) -> Step:
    """Ready pods are selected, and none of them has a port of the name that the Service leads to."""
    names = [
        str(port["targetPort"]) for port in view.spec.get("ports") or () if isinstance(port.get("targetPort"), str)
    ]
    if not names:
        return view.step("selects ready pods, which its EndpointSlices do not have yet", root=STATE)
    step = view.step(f"selects ready pods, and none of them has a container port named {', '.join(names)}", root=STATE)
    step.table = [_ports_line(pods[0])]
    changes = [each for each in (await _port_removed(view, pods[0], set(names)), await last_change(view)) if each]
    step.because = sorted(changes, key=lambda each: each.time)[-1:]
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
    """The change that took the ports from the template of the workload which the pod belongs to."""
    workload = await workload_of(view.of("pods", pod["metadata"]["name"], pod))
    if workload is None:
        return None
    for each in reversed(newest_of_spec(view.evidence, await workload.changes())):
        before, after = await view.evidence.before(each), await view.evidence.after(each)
        if names & _template_ports(before) and not names & _template_ports(after):
            return await view.chain.step(each)
    return None


def _template_ports(workload: Document | None) -> set[str]:
    template = ((workload or {}).get("spec") or {}).get("template") or {}
    return {str(container_port.get("name")) for container_port in _container_ports(template.get("spec") or {})}


async def endpoint_slice(view: View) -> Finding | None:
    """An EndpointSlice of a Service that leads nowhere: the reason is the Service's."""
    name = (view.metadata.get("labels") or {}).get("kubernetes.io/service-name") or ""
    return await _of_service(view, name)


async def endpoints(view: View) -> Finding | None:
    """Endpoints of a Service that leads nowhere."""
    return await _of_service(view, view.reference.name)


async def _of_service(view: View, name: str) -> Finding | None:
    about = await view.read("services", name) if name else None
    found = await service(about) if about is not None and about.now is not None else None
    return found if found is not None and found.state == "no endpoints" else None


def _ready(endpoint_slice: Document) -> int:
    return sum(
        len(endpoint.get("addresses") or ())
        for endpoint in endpoint_slice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
    )


async def _selects_nothing(view: View, selector: dict[str, str], pods: list[Document]) -> Step:
    text = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    step = view.step(f"selects {text}, and no pod in the namespace has these labels", root=STATE)
    step.because = await _without_replicas(view, selector)
    if step.because:
        return step
    # A pod that has all but one of them is what was probably meant.
    for pod in pods:
        labels = (pod["metadata"].get("labels")) or {}
        other = {key: labels.get(key) for key in selector if labels.get(key) != selector[key]}
        if len(other) == 1 and (len(selector) > 1 or next(iter(other)) in labels):
            key, value = next(iter(other.items()))
            step.table.append(f"pod {pod['metadata']['name']} has {key}={value or '(absent)'}")
        if len(step.table) >= _SHOWN:
            break
    changed = await last_change(view)
    step.because += [changed] if changed is not None else []
    return step


async def _without_replicas(view: View, selector: dict[str, str]) -> list[Step]:
    """Workloads whose pods the Service would select, if they had any."""
    found: list[Step] = []
    for resource in ("deployments.apps", "statefulsets.apps"):
        for each in await view.evidence.objects(resource, view.reference.namespace):
            about = view.of(resource, each["metadata"]["name"], each)
            template = (about.spec.get("template") or {}).get("metadata") or {}
            if about.spec.get("replicas") == 0 and selector.items() <= (template.get("labels") or {}).items():
                step = about.step("would have such pods, and spec.replicas is 0", root=STATE)
                changed = await last_change(about)
                step.because = [changed] if changed is not None else []
                found.append(step)
                if len(found) >= _SHOWN:
                    return found
    return found


async def _not_ready(view: View, pod: Document) -> Step:
    about = view.of("pods", pod["metadata"]["name"], pod)
    found = await about.finding()
    step = about.step(f"is {found.state}", root=STATE)
    step.because = list(found.steps)
    return step


async def _load_balancer(view: View) -> Finding | None:
    """A Service of type LoadBalancer that waits for its address."""
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
