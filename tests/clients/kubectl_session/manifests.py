"""The files in the directory of a kubectl session, by name. ``script`` applies them."""

from typing import Any

from tests.custom_resources import definition, schema, version

Doc = dict[str, Any]
HERE = "kubernetes.io/hostname"

# Subject O=crew, CN=jane. The key was not kept.
REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0eERUQUxCZ05WQkFvTUJHTnlaWGN4RFRBTEJnTlZCQU1N"
    "QkdwaGJtVXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVFrU2x6QU53ZEVDc1ZxcDVsK3laVVkzOHBFK2oxQUJ1WThXcVlhCnJq"
    "a0R1OXZFMC9KRWxMODVLempDTWlUNDJUYVdjTjhyYUFlczVLQTBydkJEZ1BqUG9BQXdDZ1lJS29aSXpqMEUKQXdJRFNBQXdSUUloQUxYSkFKWU95"
    "dnV5WXB2Q0JRb1VpQ09GdTE4aHJMTmJBQytBUDNTWDJLQllBaUJhWTFWego3TUptY1JSYlVSKzNKZkxydmthNkxxTWZBNlI2R1BFaE9EV0lZQT09"
    "Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
)


def container(**more: Any) -> Doc:
    return {"name": "main", "image": "registry.k8s.io/pause:3.10", **more}


def pod_spec(node: str, **more: Any) -> Doc:
    """Pods have a node name, so that both schedulers agree."""
    return {"nodeSelector": {HERE: node}, "terminationGracePeriodSeconds": 1, "containers": [container()], **more}


def workload(kind: str, name: str, spec: Doc, **more: Any) -> Doc:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {**({} if kind == "Job" else {"selector": {"matchLabels": labels}}), "template": template, **more},
    }


def web(image: str = "registry.k8s.io/pause:3.10", replicas: int = 2) -> Doc:
    main = container(
        image=image,
        ports=[{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        env=[
            {"name": "MODE", "value": "plain"},
            {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        resources={"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "0.5", "memory": "1Gi"}},
        readinessProbe={"httpGet": {"path": "/ready", "port": "http"}},
        volumeMounts=[{"name": "settings", "mountPath": "/etc/settings"}],
    )
    volumes = [{"name": "settings", "configMap": {"name": "settings", "optional": True}}]
    return workload("Deployment", "web", pod_spec("node-0", containers=[main], volumes=volumes), replicas=replicas)


def service(**spec: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}], **spec},
    }


def pod(name: str, **more: Any) -> Doc:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": pod_spec("node-1", **more),
    }


def config_map(name: str, **data: str) -> Doc:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _misspelt() -> Doc:
    result = web()
    result["spec"]["replicaz"] = 2
    return result


def _unselected() -> Doc:
    result = web()
    result["metadata"]["name"] = "Lost_Web"
    result["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    result["spec"]["template"]["spec"]["containers"].append(
        container(name="side", imagePullPolicy="Sometimes", ports=[{"containerPort": 0}])
    )
    result["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return result


SPEED = {"type": "integer", "minimum": 0, "description": "In knots."}
SCHEMA = schema(
    {"type": "object", "properties": {"speed": SPEED, "masts": {"type": "integer", "default": 2}}},
    status={"type": "object", "properties": {"masts": {"type": "integer"}}},
)
SHIPS = definition(
    "Ship",
    version(
        schema={**SCHEMA, "description": "A ship on the sea."},
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.masts", "statusReplicasPath": ".status.masts"},
        },
        additionalPrinterColumns=[{"name": "Speed", "type": "integer", "jsonPath": ".spec.speed"}],
    ),
    group="sea.example.com",
    names={"singular": "ship", "shortNames": ["sh"], "categories": ["sea"]},
)


def ship(**spec: Any) -> Doc:
    return {"apiVersion": "sea.example.com/v1", "kind": "Ship", "metadata": {"name": "argo"}, "spec": spec}


FILES: dict[str, list[Doc]] = {
    "web.yaml": [web(), service()],
    "web-2.yaml": [web("registry.k8s.io/pause:3.9", 3), service(sessionAffinity="ClientIP")],
    "misspelt.yaml": [_misspelt()],
    "unselected.yaml": [_unselected()],
    "solo.yaml": [pod("solo")],
    "solo-moved.yaml": [pod("solo", containers=[container(image="registry.k8s.io/pause:3.9", name="other")])],
    "flags.yaml": [config_map("flags", colour="blue", size="big")],
    "flags-2.yaml": [config_map("flags", colour="green")],
    "db.yaml": [workload("StatefulSet", "db", pod_spec("node-1"), replicas=2, serviceName="db")],
    "agent.yaml": [workload("DaemonSet", "agent", {"terminationGracePeriodSeconds": 1, "containers": [container()]})],
    "sums.yaml": [workload("Job", "sums", pod_spec("node-2", restartPolicy="Never"), completions=2, parallelism=2)],
    "request.yaml": [
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "jane"},
            "spec": {
                "request": REQUEST,
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["digital signature", "client auth"],
            },
        }
    ],
    "ships.yaml": [SHIPS],
    "argo.yaml": [ship(speed=7)],
    "sunk.yaml": [ship(speed=-1, masts="two")],
}
