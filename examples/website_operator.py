"""An operator: a Website is a Deployment, a Service and a ConfigMap, styled by a theme that it names.

    kind: Website
    spec: {html: "<h1>Hello</h1>", replicas: 2, theme: dark}   # theme: a ConfigMap in the same namespace

docs/operators.md explains it. ``pilothouse run examples/website_operator.py`` runs it.
"""

from typing import Annotated

import msgspec

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import CONFIG_MAPS, SERVICES
from pilothouse.operator import App, Column, Condition, Context, CustomResource, ObjectMeta, Reference, Requeue, View


class WebsiteSpec(View, frozen=True):
    """What the site shows, and in how many pods."""

    html: str
    replicas: Annotated[int, msgspec.Meta(ge=0, le=10)] = 1
    theme: str = ""


class WebsiteStatus(View, frozen=True):
    observed_generation: int = 0
    ready_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Website(View, frozen=True):
    """A page of HTML, served."""

    spec: WebsiteSpec
    metadata: ObjectMeta = ObjectMeta()
    status: WebsiteStatus = WebsiteStatus()


READY = Column("Ready", ".status.readyReplicas", "integer")
WEBSITES = CustomResource("example.com/v1", Website, short_names=("site",), columns=(READY,))
app = App("website-operator")
PAGES = app.metrics.counter("websites_published_total", "Pages that were published", ("namespace",))
THEME = Reference(kind=CONFIG_MAPS, of=lambda site: (site.spec.theme,))


@app.controller(WEBSITES, owns=(DEPLOYMENTS, SERVICES, CONFIG_MAPS), references=(THEME,), workers=4)
async def website(site: Website, ctx: Context[Website]) -> Requeue | None:
    name, labels = site.metadata.name, {"website": site.metadata.name}
    theme = ctx.get(CONFIG_MAPS, site.spec.theme) if site.spec.theme else None
    if site.spec.theme and theme is None:
        ctx.condition("Ready", False, reason="ThemeMissing", message=f"ConfigMap {site.spec.theme} does not exist")
        return None
    style = theme.data.get("css", "") if theme else ""
    page = {"index.html": f"<style>{style}</style>{site.spec.html}"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    spec = {"replicas": site.spec.replicas, "selector": {"matchLabels": labels}, "template": pod}
    port = {"selector": labels, "ports": [{"port": 80, "protocol": "TCP"}]}
    await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-page"}, "data": page})
    await ctx.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
    await ctx.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": port})
    deployment = ctx.get(DEPLOYMENTS, name)
    ready = deployment.status.ready_replicas if deployment else 0
    if ready >= site.spec.replicas and site.status.ready_replicas != ready:
        ctx.event("Normal", "Published", f"{ready} replicas serve the page")
        PAGES.labels(site.metadata.namespace).inc()
    ctx.status["readyReplicas"] = ready
    ctx.condition("Ready", ready >= site.spec.replicas, reason="Replicas", message=f"{ready} of {site.spec.replicas}")
    return None


@website.finalizer("example.com/farewell")
async def farewell(_site: Website, ctx: Context[Website]) -> None:
    ctx.event("Normal", "Unpublished", "The page is gone")
