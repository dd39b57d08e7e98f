"""The commands of the kubectl session, in order, and their preconditions.

The commands go to namespace ``shop``. Names are unique and describe the step.
"""

import json
import shlex
from typing import Any

from tests.clients.kubectl_session.manifests import HERE
from tests.clients.kubectl_session.runner import (
    APPS,
    SHOP,
    Check,
    Step,
    deployed,
    events,
    exists,
    is_deleted,
    items,
    matches,
    pods,
)
from tests.clients.kubectl_session.sides import NODES as NODE_COUNT

BATCH = "/apis/batch/v1/namespaces/shop"


def quoted(document: Any) -> str:
    """JSON quoted for a shell."""
    return shlex.quote(json.dumps(document))


def patch(patch_type: str, change: Any, kind: str = "strategic") -> str:
    """A patch command."""
    return f"patch {patch_type} --type={kind} -p {quoted(change)}"


def _is_done(job: Any) -> bool:
    return any(condition["type"] == "Complete" for condition in job.get("status", {}).get("conditions", ()))


def _homeless(pod: Any) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(condition.get("reason") == "Unschedulable" for condition in conditions)


def _revision_settled(name: str) -> Check:
    return matches(
        f"{APPS}/statefulsets/{name}",
        "has one revision",
        lambda found: (
            found["status"]["observedGeneration"] == found["metadata"]["generation"]
            and found["status"]["currentRevision"] == found["status"]["updateRevision"]
        ),
    )


_daemons_settled = matches(
    f"{APPS}/daemonsets/agent",
    "has updated all",
    lambda found: (
        found["status"]["observedGeneration"] == found["metadata"]["generation"]
        and found["status"].get("updatedNumberScheduled") == found["status"].get("numberAvailable") == NODE_COUNT
    ),
)

ORIENTATION = (
    Step("readiness", "get --raw /readyz"),
    Step("what is served", "api-resources -o wide --sort-by=name", newer=True),
    Step("explain a field", "explain --output plaintext-openapiv2 configmap.data"),
    Step("explain a misspelt field", "explain --output plaintext-openapiv2 configmap.date"),
    Step("nodes", "get nodes"),
    Step("nodes in full", "get nodes -o wide --show-labels", newer=True),
    Step("a node as YAML", "get node node-0 -o yaml"),
    Step(
        "nodes by columns",
        "get nodes -o custom-columns=NAME:.metadata.name,CPU:.status.capacity.cpu,TAINTS:.spec.taints",
    ),
    Step("make a namespace", "create namespace shop"),
    Step("make it again", "create namespace shop"),
    Step(
        "the namespace as YAML",
        "get namespace shop -o yaml --show-managed-fields",
        (exists(f"{SHOP}/configmaps/kube-root-ca.crt"),),
    ),
    Step("describe the namespace", "describe namespace shop", newer=True),
    Step(
        "service accounts",
        "get serviceaccounts",
        (matches(f"{SHOP}/serviceaccounts/default", "has its token", lambda found: found.get("secrets")),),
        newer=True,
    ),
    Step("top has no metrics of nodes", "top nodes"),
    Step("top has no metrics of pods", "top pods"),
)

RIGHTS = (
    Step("an administrator may", "auth can-i create deployments"),
    Step("jane may not", "auth can-i list pods --as=jane"),
    Step("make a role", "create role reader --verb=get,list --resource=pods,pods/log"),
    Step("bind it", "create rolebinding readers --role=reader --user=jane --serviceaccount=shop:default"),
    Step("jane may now", "auth can-i list pods --as=jane"),
    Step("what jane may", "auth can-i --list --as=jane", unordered=True, newer=True),
    Step("jane lists pods", "get pods --as=jane"),
    Step("jane deletes a pod", "delete pod solo --as=jane"),
    Step("jane makes a config map", "create configmap x --as=jane"),
    Step("describe the role", "describe role reader"),
    Step("describe the binding", "describe rolebinding readers"),
    Step("roles", "get roles,rolebindings -o wide"),
)

OBJECTS = (
    Step("make a config map", "create configmap settings --from-literal=a=1 --from-literal=b=two"),
    Step("make it twice", "create configmap settings --from-literal=a=1"),
    Step("the config map as YAML", "get configmap settings -o yaml --show-managed-fields"),
    Step("make a secret", "create secret generic password --from-literal=word=open"),
    Step("describe the secret", "describe secret password"),
    Step("secret by jsonpath", "get secret password -o jsonpath='{.data.word} {.type}'"),
    Step("what is not there", "get configmap nothing"),
    Step("what nobody knows", "get submarines"),
    Step("an invalid name", "create configmap Not_A_Name"),
)


DEPLOYMENT = (
    Step("apply a misspelt field", "apply -f misspelt.yaml", newer=True),
    Step("create what cannot be", "create -f unselected.yaml", newer=True),
    Step("what apply would do", "diff -f web.yaml", newer=True),
    Step("apply a deployment and its service", "apply -f web.yaml"),
    Step("apply the same again", "apply -f web.yaml", deployed("web", 2)),
    Step("rollout status", "rollout status deployment/web --timeout=30s"),
    Step("deployments", "get deployments"),
    Step("deployments in full", "get deployments -o wide --show-labels"),
    Step("the deployment as YAML", "get deployment web -o yaml --show-managed-fields"),
    Step(
        "the deployment by jsonpath", "get deployment web -o jsonpath='{.status.conditions[*].type} {.spec.replicas}'"
    ),
    Step("replica sets in full", "get rs -o wide"),
    Step("pods in full", "get pods -o wide"),
    Step("pods as YAML", "get pods -l app=web -o yaml --show-managed-fields"),
    Step("pods by field", "get pods --field-selector=status.phase=Running,spec.nodeName=node-0 -o name"),
    Step("pods that do not run", "get pods --field-selector=status.phase!=Running"),
    Step("an unknown field selector", "get pods --field-selector=spec.image=x"),
    Step("a broken selector", "get pods -l 'app in web'"),
    Step("pods by columns", "get pods -o custom-columns=IMAGE:.spec.containers[0].image,QOS:.status.qosClass"),
    Step("sorted", "get configmaps,secrets --sort-by=.metadata.name -o name"),
    Step("all", "get all"),
    Step("describe the deployment", "describe deployment web"),
    Step("describe the replica set", "describe rs -l app=web"),
    Step("describe the pods", "describe pods -l app=web", (events("involvedObject.kind=Pod", 8),)),
    Step(
        "describe the service",
        "describe service web",
        (matches(f"{SHOP}/endpoints/web", "has both pods", lambda found: len(found["subsets"][0]["addresses"]) == 2),),
        newer=True,
    ),
    Step("the service as YAML", "get service web -o yaml"),
    Step(
        "endpoints",
        "get endpoints web -o jsonpath='{.subsets[*].addresses[*].targetRef.kind} {.subsets[*].ports}'",
        newer=True,
    ),
    Step("the service in full", "get service web -o wide"),
    Step("what has been applied", "apply view-last-applied deployment/web -o yaml"),
    Step("what would change", "diff -f web-2.yaml"),
    Step("a change tried out", "apply -f web-2.yaml --dry-run=server -o yaml"),
    Step("apply the change", "apply -f web-2.yaml"),
    Step("the change rolls out", "rollout status deployment/web --timeout=30s", deployed("web", 3)),
    Step("rollout history", "rollout history deployment/web"),
    Step("a revision of it", "rollout history deployment/web --revision=2"),
    Step("rollout undo", "rollout undo deployment/web"),
    Step("after the undo", "get deployment web -o yaml", deployed("web", 3)),
    Step("undo what is not there", "rollout undo deployment/web --to-revision=9"),
    Step("rollout pause", "rollout pause deployment/web"),
    Step("pause it again", "rollout pause deployment/web"),
    Step("change it while it pauses", "set image deployment/web main=registry.k8s.io/pause:3.8"),
    Step("restart while it pauses", "rollout restart deployment/web"),
    Step("paused", "get deployment web -o jsonpath='{.spec.paused}'"),
    Step("rollout resume", "rollout resume deployment/web"),
    Step("rollout restart", "rollout restart deployment/web", deployed("web", 3)),
    Step("set resources", "set resources deployment/web --limits=cpu=1 --requests=memory=32Mi", deployed("web", 3)),
    Step("set environment", "set env deployment/web MODE=fancy EXTRA=1", deployed("web", 3)),
    Step("after all these", "get deployment web -o yaml --show-managed-fields", deployed("web", 3)),
    Step("its history now", "rollout history deployment/web"),
    Step("wait for it", "wait --for=condition=Available deployment/web --timeout=20s"),
    Step("wait in vain", "wait --for=jsonpath={.spec.replicas}=9 deployment/web --timeout=1s"),
    Step("scale", "scale deployment/web --replicas=1"),
    Step("scaled", "get deployment web -o yaml", deployed("web", 1)),
    Step("scale from what is not", "scale deployment/web --current-replicas=5 --replicas=2"),
    Step("scale as a patch", patch("deployment web --subresource=scale", {"spec": {"replicas": 2}}, "merge")),
    Step("expose", "expose deployment web --name=front --type=NodePort --port=8000", deployed("web", 2)),
    Step("the exposed service", "get service front -o yaml"),
    Step("describe the exposed service", "describe service front", (exists(f"{SHOP}/endpoints/front"),), newer=True),
    Step("autoscale", "autoscale deployment web --min=1 --max=2 --cpu=80%"),
    Step("the autoscaler", "get horizontalpodautoscalers.v1.autoscaling web -o yaml"),
    Step("delete the autoscaler", "delete hpa web"),
)

CHANGES = (
    Step(
        "a strategic patch",
        patch(
            "deployment web",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.7"}]}}}},
        ),
    ),
    Step("a merge patch", patch("service front", {"metadata": {"labels": {"tier": "front"}}}, "merge")),
    Step(
        "a JSON patch",
        patch(
            "configmap settings",
            [{"op": "add", "path": "/data/c", "value": "3"}, {"op": "remove", "path": "/data/a"}],
            "json",
        ),
    ),
    Step(
        "a JSON patch that fails",
        patch("configmap settings", [{"op": "test", "path": "/data/c", "value": "4"}], "json"),
    ),
    Step("a JSON patch of nothing", patch("configmap settings", [{"op": "remove", "path": "/data/z"}], "json")),
    Step(
        "a patch to what cannot be",
        patch("deployment web", {"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
        newer=True,
    ),
    Step("a patch of the wrong type", patch("deployment web", {"spec": {"replicas": "many"}})),
    Step("patched", "get deployment,service,configmap -o yaml", deployed("web", 2)),
    Step("follow config maps", "get configmaps -w --output-watch-events", watch=True),
    Step("label", "label configmap settings tier=back"),
    Step("label it otherwise", "label configmap settings tier=front"),
    Step("label it otherwise all the same", "label configmap settings tier=front --overwrite"),
    Step("an invalid label", "label configmap settings tier=-"),
    Step("annotate", "annotate configmap settings note='a word or two'"),
    Step("take the label off", "label configmap settings tier-"),
    Step("by label", "get configmaps -L tier -l '!tier'"),
    Step("edit", "edit configmap settings", editor="sed -i s/two/three/"),
    Step("edit nothing", "edit configmap settings", editor="true"),
    Step("edited", "get configmap settings -o yaml --show-managed-fields"),
    Step("replace with a stale one", "label configmap settings a=b --resource-version=1"),
    Step("apply on the server's side", "apply --server-side -f flags.yaml"),
    Step("somebody else changes a field", patch("configmap flags", {"data": {"colour": "red"}}, "merge")),
    Step("a conflict", "apply --server-side -f flags-2.yaml"),
    Step("by force", "apply --server-side --force-conflicts -f flags-2.yaml"),
    Step("another manager", "apply --server-side --field-manager=other -f flags-2.yaml"),
    Step("who owns what", "get configmap flags -o yaml --show-managed-fields"),
    Step("what it would change", "diff --server-side --force-conflicts -f flags.yaml"),
    Step("a deployment from the other side", "apply --server-side -f web.yaml", newer=True),
    Step("by force, too", "apply --server-side --force-conflicts -f web.yaml"),
    Step("who owns the deployment", "get deployment web -o yaml --show-managed-fields", deployed("web", 2)),
    Step("delete a config map", "delete configmap flags"),
    Step("what the watch has seen", ends="follow config maps", last="DELETED .*"),
)

PODS = (
    Step(
        "run",
        "run solo-run --image=registry.k8s.io/pause:3.10 --port=80 --env=A=B --labels=app=solo-run --overrides="
        + quoted({"spec": {"nodeSelector": {HERE: "node-2"}}}),
    ),
    Step("it runs", "get pod solo-run -o yaml", (pods("solo-run", 1),)),
    Step("create a pod", "create -f solo.yaml"),
    Step("follow pods", "get pods -w -o wide -l app=solo", watch=True, after=(pods("solo", 1),)),
    Step("describe a pod", "describe pod solo", (events("involvedObject.name=solo", 4),)),
    Step("events of the pod", "events --for=pod/solo", unordered=True),
    Step("change what is fixed", "apply -f solo-moved.yaml"),
    Step("replace what is fixed", "replace -f solo-moved.yaml", newer=True),
    Step("replace by force", "replace --force -f solo-moved.yaml"),
    Step("a pod's image may change", "set image pod/solo other=registry.k8s.io/pause:3.8", (pods("solo", 1),)),
    Step("the pod as YAML", "get pod solo -o yaml --show-managed-fields", (pods("solo", 1),), newer=True),
    Step("delete it now", "delete pod solo --now"),
    Step(
        "what the watch has seen of it", ends="follow pods", last=r"(?s)(0/1 +(Terminating|Completed).*){6}", newer=True
    ),
    Step("delete it by force", "delete pod solo-run --force --grace-period=0"),
    Step("delete it once more", "delete pod solo-run"),
)

SETS = (
    Step("apply a stateful set", "apply -f db.yaml"),
    Step("apply a daemon set", "apply -f agent.yaml"),
    Step("apply a job", "apply -f sums.yaml"),
    Step("the stateful set rolls out", "rollout status statefulset/db --timeout=30s", (pods("db", 2),)),
    Step("the daemon set rolls out", "rollout status daemonset/agent --timeout=30s", (pods("agent", 3),)),
    Step(
        "wait for the job",
        "wait --for=condition=complete job/sums --timeout=30s",
        (matches(f"{BATCH}/jobs/sums", "is done", _is_done),),
    ),
    Step("sets and jobs in full", "get statefulsets,daemonsets,jobs -o wide", newer=True),
    Step("describe the stateful set", "describe statefulset db", (events("involvedObject.name=db", 2),)),
    Step("describe the daemon set", "describe daemonset agent", (events("involvedObject.name=agent", 3),)),
    Step(
        "describe the job", "describe job sums", (events("involvedObject.name=sums,reason=Completed", 1),), newer=True
    ),
    Step("sets and jobs as YAML", "get statefulset,daemonset,job -o yaml"),
    Step("pods of sets as YAML", "get pod db-0 db-1 -o yaml"),
    Step("revisions", "get controllerrevisions -o yaml"),
    Step("change the set", "set image statefulset/db main=registry.k8s.io/pause:3.9"),
    Step("history of the set", "rollout history statefulset/db", (pods("db", 2), _revision_settled("db"))),
    Step("undo the set", "rollout undo statefulset/db"),
    Step("the set is back", "get statefulset db -o yaml", (pods("db", 2), _revision_settled("db"))),
    Step("restart the daemons", "rollout restart daemonset/agent"),
    Step("the daemons are back", "rollout history daemonset/agent", (pods("agent", 3), _daemons_settled)),
    Step("delete the job", "delete job sums"),
)

NODES = (
    Step("cordon", "cordon node-1"),
    Step("cordon again", "cordon node-1"),
    Step("uncordon", "uncordon node-1"),
    Step("taint", "taint node node-2 dedicated=lab:NoSchedule"),
    Step("taint it again", "taint node node-2 dedicated=lab:NoSchedule"),
    Step("tainted", "get node node-2 -o jsonpath='{.spec.taints[*].key}'"),
    Step("take the taint off", "taint node node-2 dedicated-"),
    Step("drain in vain", "drain node-0", unordered=True),
    Step("drain", "drain node-0 --ignore-daemonsets --timeout=30s", unordered=True),
    Step("a drained node", "get nodes"),
    Step(
        "pods without a node",
        "get pods -o wide -l app=web",
        (items(f"{SHOP}/pods?labelSelector=app%3Dweb", 2, "pods that found no node", _homeless),),
    ),
    Step("describe pods without a node", "describe pods -l app=web", (events("reason=FailedScheduling", 2),)),
    Step("describe the node", "describe node node-0"),
    Step("uncordon the node", "uncordon node-0"),
    Step("pods are home again", "get pods -l app=web -o wide", deployed("web", 2)),
)

CERTIFICATES = (
    Step("ask for a certificate", "create -f request.yaml"),
    Step("the request", "get csr", newer=True),
    Step("describe the request", "describe csr jane"),
    Step("approve it", "certificate approve jane"),
    Step("approve it again", "certificate approve jane"),
    Step(
        "the certificate",
        "get csr jane -o yaml",
        (
            matches(
                "/apis/certificates.k8s.io/v1/certificatesigningrequests/jane",
                "is signed",
                lambda found: found["status"].get("certificate"),
            ),
        ),
    ),
    Step("deny what is approved", "certificate deny jane"),
    Step("delete the request", "delete csr jane"),
)

CUSTOM = (
    Step("define ships", "apply -f ships.yaml"),
    Step("wait for the definition", "wait --for=condition=Established crd/ships.sea.example.com --timeout=10s"),
    Step("the definition", "get crd ships.sea.example.com -o yaml"),
    Step("launch a ship", "apply -f argo.yaml"),
    Step("launch it badly", "apply --validate=false -f sunk.yaml", unordered=True),
    Step("ships", "get ships"),
    Step("ships by category", "get sea -o wide"),
    Step("the ship as YAML", "get sh argo -o yaml --show-managed-fields"),
    Step("describe the ship", "describe ship argo"),
    Step("scale the ship", "scale ship/argo --replicas=3"),
    Step("patch the ship", patch("ship argo", {"spec": {"speed": 9}}, "merge")),
    Step("patch it strategically", patch("ship argo", {"spec": {"speed": 9}})),
    Step("edit the ship", "edit ship argo", editor="sed -i s/speed:.9/speed:\\ 11/"),
    Step("the ship at last", "get ship argo -o json"),
    Step("undefine ships", "delete crd ships.sea.example.com"),
)

ENDS = (
    Step("delete and orphan", "delete deployment web --cascade=orphan"),
    Step("its orphans", "get rs,pods -l app=web -o yaml", (is_deleted(f"{APPS}/deployments/web"),)),
    Step("delete in the foreground", "delete rs -l app=web --cascade=foreground --timeout=30s", unordered=True),
    Step("nothing is left of it", "get rs,pods -l app=web"),
    Step("delete in the background", "delete statefulset db"),
    Step(
        "nothing is left of that", "get statefulset,pods -l app=db", (items(f"{SHOP}/pods?labelSelector=app%3Ddb", 0),)
    ),
    Step("delete all of a kind", "delete configmaps --all", unordered=True),
    Step("delete what is not there", "delete deployment web"),
    Step("not even then", "delete deployment web --ignore-not-found"),
    Step("delete the namespace", "delete namespace shop --timeout=40s"),
    Step("it is gone", "get pods"),
    Step("no such namespace", "create configmap late"),
)

SCRIPT = (*ORIENTATION, *RIGHTS, *OBJECTS, *DEPLOYMENT, *CHANGES, *PODS, *SETS, *NODES, *CERTIFICATES, *CUSTOM, *ENDS)
