"""Root causes: injected containers, default classes, finalizers, conditions, taints, preemptions."""

import asyncio
from typing import Any

from tests import custom_resources
from tests.tables import cases
from tests.why.cluster import NAMESPACE, Cluster, deployment, roots, text

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from pilothouse.api.core import CONFIG_MAPS, NODES, PODS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta, View
from pilothouse.api.storage import STORAGE_CLASSES
from pilothouse.apiserver.origins import impersonated_by
from pilothouse.client.interceptor import Rule, delay
from pilothouse.env import Env
from pilothouse.nodes import Profile
from pilothouse.operator import App, Context, CustomResource
from pilothouse.testing import async_plane
from pilothouse.why import AS_DESIRED, NO_CONDITION, UNKNOWN_CONDITIONS, Reference, ServerEvidence, explain

ADMIN = "kubernetes-admin with pilothouse-testing"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


async def test_container_injected_by_a_policy(cluster: Cluster) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = (
        '[JSONPatch{op: "add", path: "/spec/containers/-", '
        'value: Object.spec.containers{name: "trace-agent", image: "trace"}}]'
    )
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    group = "admissionregistration.k8s.io/v1"
    metadata = {"name": "defaults"}
    await cluster.create({"apiVersion": group, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": policy})
    binding = {"policyName": "defaults"}
    await cluster.create(
        {"apiVersion": group, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding}
    )
    await asyncio.sleep(5)
    container = {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    await cluster.deployment(replicas=1, containers=[container])
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    autoscaler = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    await cluster.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": autoscaler,
        }
    )
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    policy_or_binding, root_texts = roots(explanation)
    assert policy_or_binding.startswith("mutatingadmissionpolicy"), text(explanation)
    assert root_texts == f"deployment/web was created, by {ADMIN}"
    assert "mutatingadmissionpolicy/defaults names the container" in text(explanation)
    assert "has the container trace-agent, which is not in the template of replicaset/web-" in text(explanation)


async def test_container_without_a_request_in_the_template(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1)
    (pod,) = await cluster.pods()
    message = f"missing request for cpu in container app of Pod {pod}"
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    manifest = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    await cluster.create({**manifest, "spec": spec})
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert message in text(explanation)
    assert roots(explanation) == [f"deployment/web was created, by {ADMIN}"], text(explanation)


async def test_removed_default_storage_class(cluster: Cluster) -> None:
    (class_,) = (await cluster.user.list(STORAGE_CLASSES)).items
    name = class_.metadata.name
    await cluster.patch(STORAGE_CLASSES, name, {"metadata": {"annotations": {_DEFAULT: "false"}}}, "")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    )
    await asyncio.sleep(20)
    lost = (
        f'storageclass/{name} changed: metadata.annotations["storageclass.kubernetes.io/is-default-class"]: '
        f'"true" -> "false", by {ADMIN}'
    )
    explanation = await cluster.why("persistentvolumeclaims", "data")
    assert roots(explanation)[0] == lost, text(explanation)
    assert roots(await cluster.why("storageclasses.storage.k8s.io", name, "")) == [lost]


async def test_namespace_blocked_by_a_stopped_operator(cluster: Cluster) -> None:
    """The remaining objects show since when, and which program may have to remove their finalizer."""
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "preview"}})
    await cluster.create(deployment("channel-operator", replicas=1))
    await asyncio.sleep(10)
    await cluster.scale("channel-operator", 0)
    await cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "main", "namespace": "preview", "finalizers": ["example.com/release-channel"]},
        }
    )
    await cluster.plane.delete("v1", "Namespace", "preview")
    await asyncio.sleep(30)
    explanation = await cluster.why("namespaces", "preview", "")
    assert "deployment/channel-operator of namespace default may be the program that removes it (a guess" in text(
        explanation
    )
    assert "has it since " in text(explanation)
    assert roots(explanation) == [
        f"deployment/channel-operator changed: spec.replicas: 1 -> 0, by {ADMIN}",
        f"namespace/preview was marked for deletion, by {ADMIN}",
    ], text(explanation)
    assert text(explanation).count("is not empty") == 1
    assert text(explanation).splitlines().count("Root causes:") == 1


async def test_definition_whose_objects_have_finalizers(cluster: Cluster) -> None:
    """The API server removes the finalizer of a definition; those of its objects hold it up."""
    await cluster.create(custom_resources.definition("Widget"))
    for name, finalizers in (("held", ["example.com/hold"]), ("other", [])):
        metadata = {"name": name, "namespace": "default", "finalizers": finalizers}
        await cluster.create({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
    await cluster.plane.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com")
    await asyncio.sleep(5)
    explanation = await cluster.why("customresourcedefinitions.apiextensions.k8s.io", "widgets.example.com", "")
    result = text(explanation)
    cleanup = "customresourcecleanup.apiextensions.k8s.io: kube-apiserver, until all objects of the definition are gone"
    assert f"widgets.example.com is held by the finalizer {cleanup}" in result
    assert "widget/held of namespace default is held by the finalizer example.com/hold" in result
    assert "widget/other" not in result


async def test_namespace_whose_conditions_report_nothing(cluster: Cluster) -> None:
    """Before the first sync there are none, and while pods are deleted they say that all content is removed (as
    upstream)."""
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "preview"}})
    metadata = {"name": "p", "namespace": "preview", "annotations": {"simulated.pilothouse.dev/stop-delay": "2s"}}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    await asyncio.sleep(5)
    await cluster.plane.delete("v1", "Namespace", "preview")
    seen = []
    for seconds in (1, 4.5, 3):
        await asyncio.sleep(seconds)
        explanation = await cluster.why("namespaces", "preview", "")
        assert explanation.state == "terminating"
        seen.append([step.text for step in explanation.steps])
    marked = "namespace/preview was marked for deletion"
    remaining = "1 configmaps, 1 pods, 1 serviceaccounts"
    assert seen == [
        [f"namespace/preview is being emptied: {remaining} remain", marked],
        [f"namespace/preview is being emptied: {remaining} remain", marked],
        ["namespace/preview is being emptied: 1 configmaps, 1 serviceaccounts remain", marked],
    ]


async def test_program_that_removed_the_finalizer_before(cluster: Cluster) -> None:
    operator = deployment("keeper", replicas=0, serviceAccountName="releases")
    await cluster.create(operator)
    metadata = {"finalizers": ["example.com/hold"]}
    for name in ("first", "second"):
        await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}})
        await cluster.plane.delete("v1", "ConfigMap", name)
    program = cluster.as_user("system:serviceaccount:default:releases")
    await program.patch(CONFIG_MAPS, "first", {"metadata": {"finalizers": None}})
    result = text(await cluster.why("configmaps", "second"))
    assert "system:serviceaccount:default:releases with pilothouse-testing removed this finalizer from" in result, (
        result
    )
    assert "deployment/keeper of namespace default uses the service account releases, which removed it before" in result


async def test_apiservice_with_deleted_service(cluster: Cluster) -> None:
    await cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "adapter"},
            "spec": {"ports": [{"port": 443}], "selector": {"app": "adapter"}},
        }
    )
    await cluster.create(
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.quota.example.com"},
            "spec": {
                "group": "quota.example.com",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": "adapter", "namespace": NAMESPACE},
            },
        }
    )
    await cluster.plane.delete("v1", "Service", "adapter")
    await asyncio.sleep(60)
    explanation = await cluster.why("apiservices.apiregistration.k8s.io", "v1beta1.quota.example.com", "")
    assert explanation.state == "not available", text(explanation)
    assert roots(explanation) == [f"service/adapter was deleted, by {ADMIN}"], text(explanation)


async def test_failing_condition_of_a_custom_resource(cluster: Cluster) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "rooms", "singular": "room", "kind": "Room"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    metadata = {"name": "rooms.example.com"}
    await cluster.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": spec,
        }
    )
    await asyncio.sleep(5)
    condition = {"type": "Ready", "status": "False", "reason": "NoKey", "message": 'secret "key" not found'}
    room = {"apiVersion": "example.com/v1", "kind": "Room", "metadata": {"name": "blue"}}
    await cluster.create({**room, "status": {"conditions": [condition]}})
    explanation = await cluster.why("rooms.example.com", "blue")
    assert explanation.state == "not ready", text(explanation)
    assert 'has the condition Ready False: NoKey: secret "key" not found' in text(explanation)
    assert "secret/key is not there, and no change of it is known" in text(explanation)
    for name, status, state in (
        ("red", {"seats": 3}, "not known: its status has no conditions"),
        ("green", {}, "not known: no controller has written a status"),
    ):
        await cluster.create({**room, "metadata": {"name": name}, "spec": {"colour": name}, "status": status})
        assert (await cluster.why("rooms.example.com", name)).state == state


async def room(cluster: Cluster, **status: object) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "rooms", "singular": "room", "kind": "Room"}
    definition = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await cluster.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "rooms.example.com"},
            "spec": definition,
        }
    )
    await asyncio.sleep(5)
    metadata = {"name": "blue"}
    await cluster.create(
        {"apiVersion": "example.com/v1", "kind": "Room", "metadata": metadata, "spec": {"a": 1}, "status": status}
    )
    [created] = await cluster.documents("rooms.example.com", NAMESPACE)
    return created


async def test_custom_resource_whose_controller_is_behind(cluster: Cluster) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "R", "message": ""}
    await room(cluster, observedGeneration=0, conditions=[ready])
    assert (await cluster.why("rooms.example.com", "blue")).state == "as desired"
    rooms = Kind("example.com", "v1", "rooms", "Room", True, Object)
    await cluster.patch(rooms, "blue", {"status": {"observedGeneration": 1}, "spec": {"a": 2}})
    await cluster.patch(rooms, "blue", {"spec": {"a": 3}})
    explanation = await cluster.why("rooms.example.com", "blue")
    assert explanation.state == "not processed", text(explanation)
    assert "its controller has not processed its last change" in text(explanation)
    assert roots(explanation)[0].startswith("room/blue changed: spec.a: 2 -> 3")


@cases(
    "conditions, status, state, line",
    {
        "a phase": ([], {"phase": "Error", "message": "no database"}, NO_CONDITION, "status.message: no database"),
        "unknown": ([("Ready", "Unknown")], {}, "ready is not known", ""),
        "own type": ([("Reconciled", "False")], {}, UNKNOWN_CONDITIONS, "condition Reconciled False: R: m"),
        "own type, True": ([("Reconciled", "True")], {}, AS_DESIRED, "condition Reconciled True: R: m"),
        "both": ([("Ready", "True"), ("Saved", "False")], {}, AS_DESIRED, "condition Saved False: R: m"),
    },
)
async def test_what_a_custom_resource_reports(
    cluster: Cluster, conditions: list[tuple[str, str]], status: dict[str, str], state: str, line: str
) -> None:
    entries = [{"type": type_, "status": value, "reason": "R", "message": "m"} for type_, value in conditions]
    await room(cluster, conditions=entries, **status)
    explanation = await cluster.why("rooms.example.com", "blue")
    assert explanation.state == state, text(explanation)
    assert line in "\n".join(explanation.steps[0].table)


async def test_custom_resource_is_explained_by_what_it_owns(cluster: Cluster) -> None:
    failing = {"type": "Ready", "status": "False", "reason": "Progressing", "message": "0 of 2 replicas are ready"}
    created = await room(cluster, conditions=[failing])
    owner = {"apiVersion": "example.com/v1", "kind": "Room", "name": "blue", "uid": created["metadata"]["uid"]}
    manifest = deployment("blue", image="nginx:404")
    manifest["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    await cluster.create(manifest)
    await asyncio.sleep(60)
    explanation = text(await cluster.why("rooms.example.com", "blue"))
    assert "deployment/blue" in explanation
    assert "ImagePullBackOff" in explanation or "ErrImagePull" in explanation, explanation


async def test_custom_resource_is_explained_by_the_custom_resources_that_it_owns(cluster: Cluster) -> None:
    failing = {"type": "Ready", "status": "False", "reason": "Progressing", "message": "0 of 1 rooms are ready"}
    created = await room(cluster, conditions=[failing])
    owner = {"apiVersion": "example.com/v1", "kind": "Room", "name": "blue", "uid": created["metadata"]["uid"]}
    condition = {"type": "Ready", "status": "False", "reason": "NoKey", "message": 'secret "key" not found'}
    metadata = {"name": "blue-0", "ownerReferences": [{**owner, "controller": True}]}
    owned = {"apiVersion": "example.com/v1", "kind": "Room", "metadata": metadata, "spec": {}}
    await cluster.create({**owned, "status": {"conditions": [condition]}})
    explanation = await cluster.why("rooms.example.com", "blue")
    assert "room/blue-0 has the condition Ready False: NoKey" in text(explanation), text(explanation)
    assert "secret/key is not there" in text(explanation), text(explanation)


async def test_object_whose_owner_went_with_its_definition(cluster: Cluster) -> None:
    """The changes of the owner cannot be read any more, because nothing serves its kind."""
    created = await room(cluster)
    owner = {"apiVersion": "example.com/v1", "kind": "Room", "name": "blue", "uid": created["metadata"]["uid"]}
    metadata = {"name": "key", "ownerReferences": [owner]}
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await asyncio.sleep(60)
    await cluster.user.delete(CUSTOM_RESOURCE_DEFINITIONS, "rooms.example.com")
    await asyncio.sleep(60)
    explanation = await cluster.why("configmaps", "key")
    assert explanation.state == "deleted", text(explanation)
    (root,) = roots(explanation)
    assert root.startswith("customresourcedefinition/rooms.example.com was marked for deletion"), text(explanation)
    assert root.endswith(f"by {ADMIN}")


class Hall(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, str] = {}


HALLS = CustomResource("example.com/v1", Hall)


async def test_pod_that_an_operator_has_replaced(env: Env) -> None:
    """The last phase of the old pod starts a sync, too, as a part of the deletion, whatever the kubelet waited for."""
    app = App("halls")

    @app.controller(HALLS, owns=(PODS,))
    async def sync(hall: Hall, ctx: Context[Hall]) -> None:
        name, image = hall.metadata.name, hall.spec["image"]
        pod = ctx.get(PODS, name)
        if pod is not None and pod.metadata.labels["image"] != image:
            await ctx.delete(PODS, name)
            return
        metadata = {"name": name, "labels": {"image": image}}
        containers = [{"name": "app", "image": "nginx", "args": [image]}]
        await ctx.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})

    late = Rule(delay(2.0, 2.0), verb="watch", resource="pods")
    async with async_plane(env=env, profile=Profile()) as plane, plane.running(app, faults=[late]):
        cluster = Cluster(plane)
        await cluster.create(
            {"apiVersion": "example.com/v1", "kind": "Hall", "metadata": {"name": "red"}, "spec": {"image": "one"}}
        )
        await asyncio.sleep(30)
        await cluster.patch(HALLS.kind, "red", {"spec": {"image": "two"}})
        await asyncio.sleep(60)
        (pod,) = await cluster.documents("pods", NAMESPACE)
        assert pod["metadata"]["labels"] == {"image": "two"}
        explanation = await cluster.why("pods", "red")
        assert roots(explanation)[0].startswith('hall/red changed: spec.image: "one" -> "two"'), text(explanation)


async def test_taint_eviction_ignores_budgets(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1)
    (pod,) = await cluster.pods()
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await cluster.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget}
    )
    await asyncio.sleep(5)
    node = (await cluster.user.get(PODS, pod, NAMESPACE)).spec.node_name
    taint = {"spec": {"taints": [{"key": "rotate", "value": "now", "effect": "NoExecute"}]}}
    await cluster.patch(NODES, node, taint, "")
    await asyncio.sleep(60)
    result = text(await cluster.why("pods", pod))
    assert "poddisruptionbudget/web (minAvailable 1) does not apply: the pod is deleted, not evicted" in result, result


async def test_priority_classes_of_a_preemption(cluster: Cluster) -> None:
    for name, value in (("low", 1), ("high", 1000)):
        await cluster.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )
    request = {"requests": {"cpu": "20"}}
    container = {"name": "app", "image": "nginx", "resources": request}
    await cluster.deployment("small", replicas=3, containers=[container], priorityClassName="low")
    before = await cluster.pods()
    await cluster.deployment("big", replicas=1, containers=[container], priorityClassName="high")
    await asyncio.sleep(60)
    (deleted,) = set(before) - set(await cluster.pods())
    result = text(await cluster.why("pods", deleted))
    assert "its priority is 1 (PriorityClass low), that of default/big-" in result, result
    assert "is 1000 (PriorityClass high)" in result


async def test_hints_for_writes_of_a_program(cluster: Cluster) -> None:
    """A program outside of Kubernetes records no reason: its writes at the same time are hints."""
    await cluster.deployment(replicas=1)
    for name in ("edge", "copy"):
        await cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"timeout": "2500ms"}}
        )
    await asyncio.sleep(30)
    await cluster.patch(CONFIG_MAPS, "edge", {"data": {"timeout": "250ms"}})
    await asyncio.sleep(8)
    program = cluster.as_user("system:serviceaccount:platform:settings")
    await program.patch(CONFIG_MAPS, "copy", {"data": {"timeout": "250ms"}})
    checksum = {"annotations": {"checksum": "e09b77"}}
    await program.patch(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": checksum}}})
    explanation = await cluster.why("deployments.apps", "web")
    (root,) = explanation.roots()
    assert root.by.startswith("system:serviceaccount:platform:settings"), text(explanation)
    wrote, copied = root.hints
    assert "also wrote configmap/copy of namespace default, which changed: data.timeout: " in wrote
    assert copied.startswith("the same data.timeout was written to configmap/edge of namespace default at "), copied
    assert wrote.partition("Z ")[2] in text(explanation)


async def test_other_commands_of_a_person_are_no_hints(cluster: Cluster) -> None:
    """A person's writes of the same second are hints only for objects that have to do with the cause."""
    names = [node.metadata.name for node in (await cluster.user.list(NODES)).items]
    for name in ("settings", "unrelated"):
        await cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"timeout": "2500ms"}}
        )
    reads = [{"configMapRef": {"name": "settings"}}]
    await cluster.deployment(replicas=1, containers=[{"name": "app", "image": "nginx", "envFrom": reads}])
    await cluster.deployment("other", replicas=1)
    await asyncio.sleep(30)
    for number, name in enumerate(names[:2]):
        await cluster.patch(NODES, name, {"metadata": {"labels": {"zone": f"zone-{number}"}}}, "")
    with impersonated_by("kubernetes-admin"):
        await cluster.as_user("jane").patch(CONFIG_MAPS, "settings", {"data": {"timeout": "250ms"}})
    await cluster.patch(CONFIG_MAPS, "unrelated", {"data": {"timeout": "250ms"}})
    await cluster.patch(DEPLOYMENTS, "other", {"spec": {"replicas": 2}})
    await cluster.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"hostname": "web"}}}})
    await asyncio.sleep(1)
    (root,) = (await cluster.why("nodes", names[0], "")).roots()
    assert (root.object, root.hints) == (f"node/{names[0]}", [])
    explanation = await cluster.why("deployments.apps", "web")
    (root,) = explanation.roots()
    (hint,) = root.hints
    assert "kubernetes-admin also wrote configmap/settings of namespace default, which changed: data.timeout: " in hint


async def test_a_person_who_acts_as_a_program_is_a_person(cluster: Cluster) -> None:
    """``kubectl --as system:serviceaccount:…``: the other commands are no hints either."""
    await cluster.deployment(replicas=1)
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "unrelated"}})
    await asyncio.sleep(30)
    program = cluster.as_user("system:serviceaccount:platform:settings")
    with impersonated_by("kubernetes-admin"):
        await program.patch(CONFIG_MAPS, "unrelated", {"data": {"a": "b"}})
        await program.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"hostname": "web"}}}})
    await asyncio.sleep(1)
    explanation = await cluster.why("deployments.apps", "web")
    (root,) = explanation.roots()
    assert "impersonated by kubernetes-admin" in root.by, text(explanation)
    assert root.hints == []


async def test_explanation_at_an_earlier_time(cluster: Cluster) -> None:
    """Cordoned nodes block a Deployment; after recovery the earlier state can still be explained."""
    names = [node.metadata.name for node in (await cluster.user.list(NODES)).items]
    for name in names:
        await cluster.patch(NODES, name, {"spec": {"unschedulable": True}}, "")
    await cluster.deployment(replicas=1)
    (pod,) = await cluster.documents("pods", NAMESPACE)
    at = int(pod["metadata"]["resourceVersion"])
    time = cluster.plane.plane.env.now()
    for name in names:
        await cluster.patch(NODES, name, {"spec": {"unschedulable": None}}, "")
    await asyncio.sleep(60)
    assert (await cluster.why("deployments.apps", "web")).state == "as desired"
    evidence = ServerEvidence(cluster.user, await cluster.user.discover(), at=at)
    result = await explain(evidence, Reference("deployments.apps", NAMESPACE, "web"), time=time)
    assert result.state == "rolling out", text(result)
    assert f"node/{names[0]} changed: spec.unschedulable added (true), by {ADMIN}" in roots(result), text(result)


async def test_label_change_before_a_deletion_is_a_hint(cluster: Cluster) -> None:
    """A selector may have chosen the object: the user who labeled it is a hint."""
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "apac"}})
    await cluster.as_user("ana").patch(CONFIG_MAPS, "apac", {"metadata": {"labels": {"review": "q4"}}})
    await asyncio.sleep(20)
    await cluster.as_user("joon").user.delete(CONFIG_MAPS, "apac", NAMESPACE)
    (root,) = (await cluster.why("configmaps", "apac")).roots()
    assert root.by == "joon with pilothouse-testing"
    (hint,) = root.hints
    assert hint.endswith(', by ana with pilothouse-testing: metadata.labels added ({"review": "q4"})'), hint


async def test_provisioned_volume_leads_to_the_creation_of_its_claim(cluster: Cluster) -> None:
    """The binder's annotation in between changes nothing of weight."""
    provisioner = "simulated.pilothouse.dev"
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    await cluster.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "quick", "annotations": annotations},
            "provisioner": provisioner,
        }
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "plain"}, "spec": spec}
    )
    await asyncio.sleep(5)
    explanation = await cluster.why("persistentvolumeclaims", "plain")
    assert roots(explanation) == [f"persistentvolumeclaim/plain was created, by {ADMIN}"], text(explanation)
    assert "is not in the history" not in text(explanation)


async def test_deletion_of_an_earlier_pod_of_the_name_is_no_cause(cluster: Cluster) -> None:
    """Neither for the pod, nor for a Service that selects it."""
    spec = {"containers": [{"name": "app", "image": "nginx"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}}, "spec": spec}
    jane = cluster.as_user("jane")
    await cluster.create(pod)
    await asyncio.sleep(10)
    await cluster.user.delete(PODS, "a", NAMESPACE)
    await asyncio.sleep(60)
    await cluster.create(pod)
    await asyncio.sleep(10)
    node = (await cluster.user.get(PODS, "a", NAMESPACE)).spec.node_name
    silent = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}
    await cluster.patch(NODES, node, silent, "")
    await jane.user.delete(PODS, "a", NAMESPACE)
    service = {"selector": {"app": "a"}, "ports": [{"port": 80}]}
    await cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": service})
    await asyncio.sleep(2)
    explanation = await cluster.why("pods", "a")
    assert explanation.state == "terminating"
    assert roots(explanation)[-1].endswith("by jane with pilothouse-testing"), text(explanation)
    assert ADMIN not in text(explanation), text(explanation)
    explanation = await cluster.why("services", "a")
    assert "selects 1 ready pod, all of them terminating" in text(explanation), text(explanation)
    assert "by jane" in text(explanation), text(explanation)


async def test_budget_that_has_not_been_processed(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=("*", "-disruption-controller")) as plane:
        cluster = Cluster(plane)
        budget = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
        await cluster.create(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget}
        )
        explanation = await cluster.why("poddisruptionbudgets.policy", "web")
    assert explanation.state == "not processed", text(explanation)
    assert "disruption-controller has not processed its last change; evictions of its pods are rejected" in text(
        explanation
    )


async def test_budget_with_a_terminating_pod(cluster: Cluster) -> None:
    toleration = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "operator": "Exists"}
    pod = {"tolerations": [{**toleration, "tolerationSeconds": 5}]}
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "nginx"}], **pod},
        },
    }
    await cluster.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec})
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await cluster.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget}
    )
    await asyncio.sleep(10)
    node = (await cluster.user.get(PODS, "web-0", NAMESPACE)).spec.node_name
    silent = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}
    await cluster.patch(NODES, node, silent, "")
    await asyncio.sleep(120)
    explanation = await cluster.why("poddisruptionbudgets.policy", "web")
    assert explanation.state == "allows no eviction", text(explanation)
    assert [root.object for root in explanation.roots()] == [f"node/{node}"], text(explanation)


async def test_change_of_the_other_replica_limit_is_no_cause(cluster: Cluster) -> None:
    container = {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    await cluster.deployment(replicas=2, containers=[container])
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 6,
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    manifest = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    await cluster.create({**manifest, "spec": spec})
    await asyncio.sleep(30)
    await cluster.patch(HORIZONTAL_POD_AUTOSCALERS, "web", {"spec": {"maxReplicas": 8}})
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert "TooFewReplicas" in text(explanation)
    assert roots(explanation)[-1] == f"horizontalpodautoscaler/web was created, by {ADMIN}", text(explanation)
