"""The options of the plane of ``pilothouse up`` by its flags."""

from typing import TYPE_CHECKING

from pilothouse.cli.apiserver import authorization_modes, gates_of
from pilothouse.cli.nodes import profile_from, stages_from
from pilothouse.controllermanager import options as manager_options
from pilothouse.controllermanager import root_authority
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.flags import Parsed
from pilothouse.plane.options import PlaneOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.machinery.jws import Signer
    from pilothouse.serving.certificates import Pair


def plane_options(
    parsed: Parsed, *, identity: str, authority: "Pair | None", signer: "Signer", restored_nodes: "Sequence[str]"
) -> PlaneOptions:
    """``identity``: the manager's in leader election. ``authority`` and ``signer``: the API server's CA and the key of
    its tokens, for controllers. Raises ``UserError``."""
    manager = manager_options.Options(
        controllers=parsed["controllers"],
        leader_election=manager_options.LeaderElection(enabled=True),
        # Upstream grants these permissions to controllers, not to the manager.
        use_service_account_credentials=authorization_modes(parsed) == "Node,RBAC",
    )
    manager = manager_options.with_gates(manager, gates_of(parsed), DESCRIPTORS)
    if authority is not None:
        manager = root_authority.with_ca_bundle(manager, authority.certificate)
        manager = root_authority.with_signing_ca(manager, authority)
    manager = root_authority.with_signer(manager, signer)
    return PlaneOptions(
        nodes=parsed["nodes"],
        node_prefix=parsed["node-prefix"],
        adopted_nodes=tuple(restored_nodes),
        profile=profile_from(parsed),
        stages=stages_from(parsed),
        resource_metrics=not parsed["no-metrics"],
        scheduler=not parsed["no-scheduler"],
        storage=not parsed["no-storage"],
        cloud=not parsed["no-cloud"],
        manager=None if parsed["no-manager"] else manager,
        manager_identity=identity,
    )
