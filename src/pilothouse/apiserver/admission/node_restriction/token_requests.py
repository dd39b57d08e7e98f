"""The service account tokens that a node may request: bound to a pod on the node, for an audience that the pod uses.

A pod uses the audiences of its projected volumes and those of the CSI drivers of its volumes (inline, through a claim,
or migrated from an in-tree plugin). Other audiences require the verb ``request-serviceaccounts-token-audience``
(feature gate ServiceAccountNodeAudienceRestriction, on by default since v1.33).
"""

from collections.abc import Iterator

from pilothouse.apiserver.admission.chain import AdmissionAttributes, new_forbidden
from pilothouse.apiserver.admission.node_restriction.objects import find_object
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.csi_translation import IN_TREE_PLUGINS

_VERB = "request-serviceaccounts-token-audience"


def admit_token_request(core: Core, node_name: str, write: AdmissionAttributes) -> None:
    """Reject a TokenRequest that the node may not make."""
    assert write.obj is not None, "a token request has a body"
    spec = write.obj.get("spec") or {}
    ref = spec.get("boundObjectRef") or {}
    if (ref.get("apiVersion"), ref.get("kind")) != ("v1", "Pod") or not ref.get("name"):
        raise new_forbidden(write, "node requested token not bound to a pod")
    if not ref.get("uid"):
        raise new_forbidden(write, "node requested token with a pod binding without a uid")
    pod = find_object(core.store, "pods", ref["name"], namespace=write.namespace)
    if ref["uid"] != pod["metadata"]["uid"]:
        reason = f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
        raise new_forbidden(write, f"{reason}The object might have been deleted and then recreated")
    if (pod["spec"].get("nodeName") or "") != node_name:
        raise new_forbidden(write, "node requested token bound to a pod scheduled on a different node")
    reason = _validate_audience(core, write, pod, spec.get("audiences") or [])
    if reason:
        raise new_forbidden(write, reason)


def _validate_audience(core: Core, write: AdmissionAttributes, pod: Object, audiences: list[str]) -> str:
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    audience = audiences[0] if audiences else ""
    all_errors: list[str] = []
    if _pod_references_audience(core, pod, audience, all_errors):
        return ""
    if all_errors:
        error_text = all_errors[0] if len(all_errors) == 1 else f"[{', '.join(all_errors)}]"
        return f"error validating audience {quote(audience)}: {error_text}"
    attributes = Attributes(_VERB, "", "v1", audience, namespace=write.namespace, name=write.name)
    decision = core.authorizer.authorize(write.identity, attributes)
    if decision.allowed:
        return ""
    user, missing = write.identity.user, f"audience {quote(audience)} not found in pod spec volume"
    if decision.error:
        return f"{missing}, error authorizing {user} to request tokens for this audience: {decision.error}"
    return f"{missing}, {user} is not authorized to request tokens for this audience"


def _pod_references_audience(core: Core, pod: Object, audience: str, all_errors: list[str]) -> bool:
    """Whether a volume of the pod uses the audience (``podReferencesAudience``). The messages for missing objects are
    added to ``all_errors``, each once."""
    for volume in pod["spec"].get("volumes") or ():
        if audience in _projected_audiences(volume):
            return True
        try:
            driver = _driver_of(core, pod, volume)
            if driver and audience in _driver_audiences(core, driver):
                return True
        except StatusError as error:
            if error.message not in all_errors:
                all_errors.append(error.message)
    return False


def _projected_audiences(volume: Object) -> Iterator[str]:
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            yield source["serviceAccountToken"].get("audience") or ""


def _driver_audiences(core: Core, name: str) -> Iterator[str]:
    driver = find_object(core.store, "csidrivers", name, group="storage.k8s.io")
    for request in driver["spec"].get("tokenRequests") or ():
        yield request.get("audience") or ""


def _driver_of(core: Core, pod: Object, volume: Object) -> str:
    """The name of the CSI driver that mounts the volume; "" if there is none."""
    namespace: str = pod["metadata"]["namespace"]
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate") is not None:
        return _driver_of_claim(core, namespace, f"{pod['metadata']['name']}-{volume['name']}")
    if volume.get("persistentVolumeClaim") is not None:
        return _driver_of_claim(core, namespace, volume["persistentVolumeClaim"].get("claimName") or "")
    if volume.get("csi") is not None:
        return str(volume["csi"].get("driver") or "")
    return _migrated_driver(volume)


def _driver_of_claim(core: Core, namespace: str, name: str) -> str:
    claim = find_object(core.store, "persistentvolumeclaims", name, namespace=namespace)
    volume = find_object(core.store, "persistentvolumes", claim["spec"].get("volumeName") or "")
    if volume["spec"].get("csi") is not None:
        return str(volume["spec"]["csi"].get("driver") or "")
    return _migrated_driver(volume["spec"])


def _migrated_driver(sources: Object) -> str:
    return next((plugin.driver for field, plugin in IN_TREE_PLUGINS.items() if sources.get(field) is not None), "")
