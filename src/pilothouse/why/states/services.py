"""Services without endpoints."""

from pilothouse.why.evidence import Document
from pilothouse.why.states.lifetime import last_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View, condition

_SHOWN = 5


async def service(view: View) -> Finding | None:
    """A Service that leads nowhere: its selector, or the pods that it selects."""
    spec = view.spec
    if spec.get("type") == "ExternalName":
        return None
    slices = [
        each
        for each in await view.evidence.objects("endpointslices.discovery.k8s.io", view.reference.namespace)
        if ((each.get("metadata") or {}).get("labels") or {}).get("kubernetes.io/service-name") == view.reference.name
    ]
    needs_ports = bool(spec.get("ports")) and spec.get("clusterIP") != "None"
    ready = sum(_ready(each) for each in slices if each.get("ports") or not needs_ports)
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
        return Finding("no endpoints", (await _without_ports(view),))
    step = view.step(f"selects {len(selected)} pods, and none of them is ready", root=STATE)
    step.because = [await _not_ready(view, pod) for pod in waiting[:_SHOWN]]
    return Finding("no endpoints", (step,))


async def _without_ports(view: View) -> Step:
    """Ready pods are selected, and none of them has a port of the name that the Service leads to."""
    names = [
        str(each["targetPort"]) for each in view.spec.get("ports") or () if isinstance(each.get("targetPort"), str)
    ]
    if not names:
        return view.step("selects ready pods, which its EndpointSlices do not have yet", root=STATE)
    changed = await last_change(view)
    text = f"selects ready pods, and none of them has a container port named {', '.join(names)}"
    return view.step(text, root=STATE, because=[changed] if changed is not None else [])


def _ready(endpoint_slice: Document) -> int:
    return sum(
        len(each.get("addresses") or ())
        for each in endpoint_slice.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
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
    events = [each for each in await view.evidence.events(view.reference, view.uid) if each.type == "Warning"]
    if view.spec.get("loadBalancerClass"):
        text = f"waits for a controller of the loadBalancerClass {view.spec['loadBalancerClass']}"
    elif events:
        text = f"has no address: {events[-1].reason}: {events[-1].message}"
    else:
        text = "has no address: nothing assigns addresses to load balancers in this cluster"
    return Finding("no address", (view.step(text, root=STATE),))
