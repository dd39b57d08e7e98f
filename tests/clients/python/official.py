"""The official client, ``kubernetes``: its typed API, its dynamic client, watches and its informer."""

import os
from typing import Any

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.informer import ADDED, DELETED, SharedInformer
from tests.clients.python.objects import (
    LOG,
    WATCHED,
    config_map,
    custom,
    definition,
    pod,
    replica_set,
    request_restart,
    until,
)

NS = "default"


def refusal(call: Any, *arguments: Any, **more: Any) -> ApiException:
    """The error of a call that must fail."""
    try:
        call(*arguments, **more)
    except ApiException as error:
        return error
    raise AssertionError(f"{call} was not refused")


def writes(core: client.CoreV1Api) -> None:
    """Create, read, a conflict of updates, every kind of patch, apply, dry run, deletion with a finalizer."""
    created = core.create_namespaced_config_map(NS, config_map("settings", {"app": "a"}, color="red"))
    assert created.metadata.uid
    assert refusal(core.create_namespaced_config_map, NS, config_map("settings")).status == 409

    first, second = core.read_namespaced_config_map("settings", NS), core.read_namespaced_config_map("settings", NS)
    first.data["color"] = "green"
    core.replace_namespaced_config_map("settings", NS, first)
    second.data["color"] = "blue"
    conflict = refusal(core.replace_namespaced_config_map, "settings", NS, second)
    assert conflict.status == 409, conflict
    assert '"reason":"Conflict"' in conflict.body
    again = core.read_namespaced_config_map("settings", NS)
    again.data["color"] = "blue"
    assert core.replace_namespaced_config_map("settings", NS, again).data == {"color": "blue"}

    patched = core.patch_namespaced_config_map("settings", NS, {"data": {"size": "1"}})
    assert patched.data == {"color": "blue", "size": "1"}
    operations = [{"op": "replace", "path": "/data/size", "value": "2"}]
    assert core.patch_namespaced_config_map("settings", NS, operations).data["size"] == "2"
    merged = core.patch_namespaced_config_map(
        "settings", NS, {"data": {"size": None}}, _content_type="application/merge-patch+json"
    )
    assert merged.data == {"color": "blue"}
    dry = core.patch_namespaced_config_map("settings", NS, {"data": {"dry": "yes"}}, dry_run="All")
    assert "dry" in dry.data
    assert "dry" not in core.read_namespaced_config_map("settings", NS).data
    unknown = refusal(core.patch_namespaced_config_map, "settings", NS, {"spec": {"a": 1}}, field_validation="Strict")
    assert unknown.status == 422
    assert 'unknown field \\"spec\\"' in unknown.body, unknown.body

    core.patch_namespaced_config_map("settings", NS, {"metadata": {"finalizers": ["example.com/wait"]}})
    core.delete_namespaced_config_map("settings", NS)
    assert core.read_namespaced_config_map("settings", NS).metadata.deletion_timestamp is not None
    core.patch_namespaced_config_map("settings", NS, {"metadata": {"finalizers": None}})
    assert refusal(core.read_namespaced_config_map, "settings", NS).status == 404


def applies(api: client.ApiClient) -> None:
    """Server-side apply, with a conflict of managers, by the dynamic client."""
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    applied = maps.server_side_apply(body=config_map("applied", color="red"), namespace=NS, field_manager="one")
    assert applied.metadata.managedFields[0].operation == "Apply"
    changed = config_map("applied", color="blue")
    try:
        maps.server_side_apply(body=changed, namespace=NS, field_manager="two")
    except dynamic.exceptions.ConflictError as error:
        assert 'conflict with \\"one\\"' in error.body, error.body
    else:
        raise AssertionError("two managers of one field")
    forced = maps.server_side_apply(body=changed, namespace=NS, field_manager="two", force_conflicts=True)
    assert forced.data.color == "blue"
    maps.delete(name="applied", namespace=NS)


def lists(core: client.CoreV1Api) -> None:
    """Selectors, pages, and deletecollection with a selector."""
    for number in range(7):
        core.create_namespaced_config_map(NS, config_map(f"page-{number}", {"page": "yes", "odd": str(number % 2)}))
    odd = core.list_namespaced_config_map(NS, label_selector="page=yes,odd in (1)")
    assert [item.metadata.name for item in odd.items] == ["page-1", "page-3", "page-5"]
    named = core.list_namespaced_config_map(NS, field_selector="metadata.name=page-2")
    assert [item.metadata.name for item in named.items] == ["page-2"]
    names, token, pages = [], None, 0
    while token != "":
        page = core.list_namespaced_config_map(NS, label_selector="page=yes", limit=3, _continue=token)
        names += [item.metadata.name for item in page.items]
        token, pages = page.metadata._continue or "", pages + 1
        if pages == 1:
            assert page.metadata.remaining_item_count is None, "with a selector nobody counts"
    assert (pages, names) == (3, [f"page-{number}" for number in range(7)])
    core.delete_collection_namespaced_config_map(NS, label_selector="page=yes")
    assert not core.list_namespaced_config_map(NS, label_selector="page=yes").items


def runs(core: client.CoreV1Api, apps: client.AppsV1Api, api: client.ApiClient) -> None:
    """Pods: watched until they run, logs, scale, eviction, delete responses."""
    utils.create_from_dict(api, pod("p"), namespace=NS)
    watcher = watch.Watch()
    for event in watcher.stream(core.list_namespaced_pod, NS, field_selector="metadata.name=p", timeout_seconds=20):
        if event["object"].status.phase == "Running":
            watcher.stop()
    assert core.read_namespaced_pod_log("p", NS).splitlines() == LOG
    assert core.read_namespaced_pod_log("p", NS, tail_lines=1).splitlines() == LOG[1:]
    follower = watch.Watch()
    assert next(iter(follower.stream(core.read_namespaced_pod_log, "p", NS))) == LOG[0], "followed while it runs"
    deleted_pod = core.delete_namespaced_pod("p", NS, grace_period_seconds=0)
    assert deleted_pod is not None

    apps.create_namespaced_replica_set(NS, replica_set("web", 1))
    # Until then the controller writes to it too, and the scale could be outdated when it is sent.
    until(lambda: apps.read_namespaced_replica_set("web", NS).status.ready_replicas == 1, "one pod is ready")
    scale = apps.read_namespaced_replica_set_scale("web", NS)
    scale.spec.replicas = 2
    apps.replace_namespaced_replica_set_scale("web", NS, scale)
    until(lambda: apps.read_namespaced_replica_set("web", NS).status.ready_replicas == 2, "two pods are ready")
    (victim, _other) = core.list_namespaced_pod(NS, label_selector="app=web").items
    name = victim.metadata.name
    core.create_namespaced_pod_eviction(name, NS, client.V1Eviction(metadata=client.V1ObjectMeta(name=name)))
    apps.delete_namespaced_replica_set("web", NS, propagation_policy="Foreground")
    until(lambda: not core.list_namespaced_pod(NS, label_selector="app=web").items, "its pods are collected")


def custom_objects(api: client.ApiClient) -> None:
    """A CustomResourceDefinition and objects of it."""
    extensions, objects = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
    extensions.create_custom_resource_definition(definition("officials", "Official"))
    resource = ("example.com", "v1", NS, "officials")

    def established() -> bool:
        status = extensions.read_custom_resource_definition("officials.example.com").status
        return {"Established"} <= {c.type for c in status.conditions or () if c.status == "True"}

    until(established, "the kind is served")
    created = objects.create_namespaced_custom_object(*resource, custom("Official", "o", 1))
    assert created["metadata"]["generation"] == 1
    assert refusal(objects.create_namespaced_custom_object, *resource, custom("Official", "bad", 0)).status == 422
    patched = objects.patch_namespaced_custom_object(*resource, "o", {"spec": {"size": 3}})
    assert patched["metadata"]["generation"] == 2
    objects.patch_namespaced_custom_object_status(*resource, "o", {"status": {"ready": True}})
    assert objects.get_namespaced_custom_object(*resource, "o")["status"] == {"ready": True}
    assert len(objects.list_namespaced_custom_object(*resource)["items"]) == 1
    events = watch.Watch().stream(objects.list_namespaced_custom_object, *resource, timeout_seconds=5)
    assert next(iter(events))["object"]["metadata"]["name"] == "o"
    objects.delete_namespaced_custom_object(*resource, "o")
    extensions.delete_custom_resource_definition("officials.example.com")


def forbidden_without_permissions() -> None:
    """A user without rights gets Forbidden."""
    core = client.CoreV1Api(config.new_client_from_config(os.environ["KUBECONFIG_OF_NOBODY"]))
    error = refusal(core.list_namespaced_secret, NS)
    assert error.status == 403
    assert 'User \\"nobody\\" cannot list resource \\"secrets\\"' in error.body


def informs(core: client.CoreV1Api) -> None:
    """The informer: its cache is updated, also across a restart after which its resourceVersion is too old."""
    core.create_namespaced_config_map(NS, config_map("leaves", WATCHED))
    core.create_namespaced_config_map(NS, config_map("stays", WATCHED))
    messages: list[tuple[str, str]] = []
    informer = SharedInformer(core.list_namespaced_config_map, namespace=NS, label_selector="watched=yes")
    informer.add_event_handler(ADDED, lambda found: messages.append((ADDED, found.metadata.name)))
    informer.add_event_handler(DELETED, lambda found: messages.append((DELETED, found.metadata.name)))
    informer.start()

    def names() -> list[str]:
        return sorted(item.metadata.name for item in informer.cache.list())

    until(lambda: names() == ["leaves", "stays"], "it has listed")
    # From a list of config maps alone the version might still be the newest.
    request_restart()
    until(lambda: names() == ["comes", "stays"], "it has noticed what happened meanwhile")
    assert (ADDED, "comes") in messages
    assert (DELETED, "leaves") in messages
    core.create_namespaced_config_map(NS, config_map("later", WATCHED))
    until(lambda: names() == ["comes", "later", "stays"], "and it goes on")
    core.delete_namespaced_config_map("later", NS)
    until(lambda: names() == ["comes", "stays"], "in both directions")
    informer.stop()


def main() -> None:
    """Run the scenario."""
    config.load_kube_config()
    api = client.ApiClient()
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    writes(core)
    applies(api)
    lists(core)
    runs(core, apps, api)
    custom_objects(api)
    forbidden_without_permissions()
    informs(core)


if __name__ == "__main__":
    main()
