"""What ``kubectl get -o json`` prints and ``kubectl delete --all`` deletes, without a kubectl: for tests that ask until
something has happened, and that clean up.

A kubectl takes 60 ms of a processor for each answer, this takes five. What kubectl itself does with an answer is tested
where its output is compared.
"""

import contextlib
import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml
from tests.connections import insecure_context

_APPS, _STORAGE = "apis/apps/v1", "apis/storage.k8s.io/v1"
_RESOURCES = {
    "pod": ("api/v1", "pods"),
    "pods": ("api/v1", "pods"),
    "rc": ("api/v1", "replicationcontrollers"),
    "endpoints": ("api/v1", "endpoints"),
    "events": ("api/v1", "events"),
    "pvc": ("api/v1", "persistentvolumeclaims"),
    "pv": ("api/v1", "persistentvolumes"),
    "node": ("api/v1", "nodes"),
    "ds": (_APPS, "daemonsets"),
    "rs": (_APPS, "replicasets"),
    "deploy": (_APPS, "deployments"),
    "sts": (_APPS, "statefulsets"),
    "controllerrevisions": (_APPS, "controllerrevisions"),
    "endpointslices": ("apis/discovery.k8s.io/v1", "endpointslices"),
    "hpa": ("apis/autoscaling/v2", "horizontalpodautoscalers"),
    "pdb": ("apis/policy/v1", "poddisruptionbudgets"),
    "storageclass": (_STORAGE, "storageclasses"),
    "csidriver": (_STORAGE, "csidrivers"),
    "volumeattachments": (_STORAGE, "volumeattachments"),
}
_CLUSTER_WIDE = frozenset({"persistentvolumes", "nodes", "storageclasses", "csidrivers", "volumeattachments"})
_SELECTORS = {"-l": "labelSelector", "--field-selector": "fieldSelector"}


def path_of(words: tuple[str, ...], namespace: str) -> str:
    """Arguments of ``kubectl get``: a resource, then a name or selectors."""
    group, resource = _RESOURCES[words[0]]
    path = f"/{group}/{resource}" if resource in _CLUSTER_WIDE else f"/{group}/namespaces/{namespace}/{resource}"
    name, query, rest = "", "", [part for word in words[1:] for part in word.split("=", 1 if word[:2] == "--" else 0)]
    while rest:
        word = rest.pop(0)
        if word in _SELECTORS:
            query += f"{'&' if query else '?'}{_SELECTORS[word]}={quote(rest.pop(0))}"
        else:
            assert not name
            name = f"/{word}"
    return f"{path}{name}{query}"


class Reading:
    """Reads as the first user of the kubeconfig, in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._text = ""
        self._context = insecure_context()

    def get(self, *words: str) -> Any:
        """An object or a list."""
        path = path_of(words, self._namespace)
        status, text = self.raw(path)
        assert status == 200, f"GET {path}: {status} {text}"
        return json.loads(text)

    def delete_all(self, *resources: str) -> None:
        """Delete all objects of these resources, without waiting; pods without a grace period."""
        for resource in resources:
            path = f"{path_of((resource,), self._namespace)}?propagationPolicy=Background"
            if resource == "pods":
                path += "&gracePeriodSeconds=0"
            status, text = self.raw(path, "DELETE")
            assert status == 200, f"DELETE {path}: {status} {text}"

    def raw(self, path: str, method: str = "GET") -> tuple[int, str]:
        """Send a request for a path; returns status and text."""
        self._log_in()
        # No keep-alive connection: which test is the last is unknown.
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._context)
        with contextlib.closing(connection):
            connection.request(method, path, headers=self._login)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8")

    def _log_in(self) -> None:
        """Reload the kubeconfig if it has changed."""
        text = self._kubeconfig.read_text("utf-8")
        if text != self._text:
            config = yaml.safe_load(text)
            self._text = text
            self._port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
            self._login = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
