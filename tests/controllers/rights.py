"""Whether the role of a controller's service account allows the controller's requests.

API servers create the roles of upstream's controllers; those of pilothouse's own controllers are in
``deploy/rbac.yaml``.
"""

import itertools

import msgspec
from tests.controllers.node_world import World
from tests.packaging.manifests import documents

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, RbacAuthorizer
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.client.request_info import RequestInfo
from pilothouse.runtime import Descriptor

PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


def authorizer() -> RbacAuthorizer:
    """An authorizer with the bootstrap roles and those of ``deploy/rbac.yaml``."""
    stored: dict[str, list[bytes]] = {}
    deployed = [
        (PLURALS[document["kind"]], document) for document in documents("rbac.yaml") if document["kind"] in PLURALS
    ]
    for resource, obj in itertools.chain(bootstrap_objects(), deployed):
        stored.setdefault(resource, []).append(msgspec.json.encode(obj))
    return RbacAuthorizer(lambda resource: stored.get(resource, []))


def refused(world: World, descriptor: Descriptor) -> list[str]:
    """The requests so far that the controller's account is not allowed, as ``verb resource namespace/name``. Lists and
    watches are excluded: the caches use the manager's account."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    account = Identity(f"system:serviceaccount:kube-system:{descriptor.client_name}", groups)
    roles = authorizer()

    def is_allowed(call: RequestInfo) -> bool:
        attributes = Attributes(
            call.verb, call.group, call.version, call.resource, call.subresource, call.namespace, call.name
        )
        return roles.authorize(account, attributes).allowed

    calls = [sent.call for sent in world.seen if sent.call.verb not in ("list", "watch")]
    return list(dict.fromkeys(str(call) for call in calls if not is_allowed(call)))
