# mypy: disable-error-code="misc, untyped-decorator"
"""``examples/website_operator.py`` with kopf, as its documentation advises.

Asynchronous handlers share one client, handlers compare single fields, what is read of other objects is in indexes, and
kopf's own log lines are not sent as events. ``kopf run bench/website_kopf.py --all-namespaces`` runs it;
``bench.operator`` compares it with that one.
"""

import datetime
import logging
from collections.abc import Mapping
from typing import Any

import kopf
import kubernetes_asyncio.client as kube
from kubernetes_asyncio.config import load_kube_config

WEBSITES = ("example.com", "v1", "websites")
APPLY = {"field_manager": "website-operator", "force": True, "_content_type": "application/apply-patch+yaml"}


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """One client for all handlers; of events only those that handlers ask for."""
    settings.posting.level = logging.WARNING
    settings.persistence.finalizer = "example.com/farewell"
    await load_kube_config()
    memo.api = kube.ApiClient()


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """Close the client's connections."""
    await memo.api.close()


@kopf.index("deployments", labels={"website": kopf.PRESENT})
async def ready_replicas(namespace: str, name: str, status: Mapping[str, Any], **_: Any) -> dict[Any, int]:
    """By name of the website."""
    return {(namespace, name): status.get("readyReplicas", 0)}


@kopf.index("configmaps", labels={"theme": "true"})
async def styles(namespace: str, name: str, body: Mapping[str, Any], **_: Any) -> dict[Any, str]:
    """The style sheet of each theme."""
    return {(namespace, name): body.get("data", {}).get("css", "")}


@kopf.index(*WEBSITES)
async def sites_of_theme(namespace: str, name: str, spec: Mapping[str, Any], **_: Any) -> dict[Any, str] | None:
    """Names of the websites that have a theme."""
    return {(namespace, spec["theme"]): name} if spec.get("theme") else None


def first(index: Mapping[Any, Any], key: Any) -> Any:
    """The value of an index that has one for each key; None if there is none."""
    return next(iter(index.get(key, ())), None)


async def apply_page(api: Any, namespace: str, name: str, body: Mapping[str, Any], html: str, style: str) -> None:
    """The page, in a ConfigMap."""
    page = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-page"},
        "data": {"index.html": f"<style>{style}</style>{html}"},
    }
    kopf.adopt(page, owner=body)
    await kube.CoreV1Api(api).patch_namespaced_config_map(f"{name}-page", namespace, page, **APPLY)


async def apply_deployment(api: Any, namespace: str, name: str, body: Mapping[str, Any], replicas: int) -> None:
    """The pods that serve it."""
    labels = {"website": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod},
    }
    kopf.adopt(deployment, owner=body)
    await kube.AppsV1Api(api).patch_namespaced_deployment(name, namespace, deployment, **APPLY)


async def apply_service(api: Any, namespace: str, name: str, body: Mapping[str, Any]) -> None:
    """Their address."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"website": name}, "ports": [{"port": 80, "protocol": "TCP"}]},
    }
    kopf.adopt(service, owner=body)
    await kube.CoreV1Api(api).patch_namespaced_service(name, namespace, service, **APPLY)


def status_of(
    spec: Mapping[str, Any], meta: Mapping[str, Any], status: Mapping[str, Any], ready: int
) -> dict[str, Any]:
    """The status of a website with so many ready replicas."""
    wanted = spec.get("replicas", 1)
    shown = str(ready >= wanted)
    before: Any = next(iter(status.get("conditions", ())), {})
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "Ready",
        "status": shown,
        "reason": "Replicas",
        "message": f"{ready} of {wanted}",
        "observedGeneration": meta["generation"],
        "lastTransitionTime": before.get("lastTransitionTime", now) if before.get("status") == shown else now,
    }
    return {"observedGeneration": meta["generation"], "readyReplicas": ready, "conditions": [condition]}


async def publish(
    old: Any,
    *,
    namespace: str,
    name: str,
    body: Any,
    spec: Any,
    meta: Any,
    status: Any,
    patch: kopf.Patch,
    memo: kopf.Memo,
    styles: Any,
    ready_replicas: Any,
    **_: Any,
) -> None:
    """Apply what differs from the old spec; everything if there is none."""
    theme = spec.get("theme")
    style = first(styles, (namespace, theme)) if theme else ""
    if style is None:
        raise kopf.TemporaryError(f"ConfigMap {theme} does not exist", delay=10)
    if old is None or (old.get("html"), old.get("theme")) != (spec.get("html"), theme):
        await apply_page(memo.api, namespace, name, body, spec["html"], style)
    if old is None or old.get("replicas") != spec.get("replicas"):
        await apply_deployment(memo.api, namespace, name, body, spec.get("replicas", 1))
    if old is None:
        await apply_service(memo.api, namespace, name, body)
    patch.status.update(status_of(spec, meta, status, first(ready_replicas, (namespace, name)) or 0))


@kopf.on.resume(*WEBSITES)
@kopf.on.create(*WEBSITES)
async def create(**event: Any) -> None:
    """Make everything."""
    await publish(**{**event, "old": None})


@kopf.on.update(*WEBSITES, field="spec")
async def update(**event: Any) -> None:
    """Change what is different."""
    await publish(**event)


@kopf.index(*WEBSITES)
async def sites(namespace: str, name: str, body: Any, **_: Any) -> dict[Any, Any]:
    """The websites themselves, for handlers of other objects."""
    return {(namespace, name): {key: body.get(key, {}) for key in ("apiVersion", "kind", "metadata", "spec", "status")}}


@kopf.on.event("deployments", labels={"website": kopf.PRESENT})
async def deployment_changed(namespace: str, name: str, status: Any, memo: kopf.Memo, sites: Any, **_: Any) -> None:
    """Show in the website how many replicas are ready, when that has changed."""
    site, ready = first(sites, (namespace, name)), status.get("readyReplicas", 0)
    if site is None or site["metadata"].get("deletionTimestamp") or site["status"].get("readyReplicas", 0) == ready:
        return
    new = status_of(site["spec"], site["metadata"], site["status"], ready)
    await kube.CustomObjectsApi(memo.api).patch_namespaced_custom_object_status(
        "example.com", "v1", namespace, "websites", name, {"status": new}, _content_type="application/merge-patch+json"
    )
    if new["conditions"][0]["status"] == "True":
        kopf.event(site, type="Normal", reason="Published", message=f"{ready} replicas serve the page")


@kopf.on.event("configmaps", labels={"theme": "true"})
async def theme_changed(
    namespace: str, name: str, body: Any, memo: kopf.Memo, sites_of_theme: Any, sites: Any, **_: Any
) -> None:
    """Render all pages of a theme again."""
    for site_name in list(sites_of_theme.get((namespace, name), ())):
        site = first(sites, (namespace, site_name))
        if site is not None:
            style = body.get("data", {}).get("css", "")
            await apply_page(memo.api, namespace, site_name, site, site["spec"]["html"], style)


@kopf.on.delete(*WEBSITES)
async def farewell(body: Any, **_: Any) -> None:
    """Before the finalizer goes."""
    kopf.event(body, type="Normal", reason="Unpublished", message="The page is gone")
