"""Sets the rules of aggregated ClusterRoles, which have an ``aggregationRule``, among them ``admin``, ``edit``
and ``view``.

Behaviour: the rules of such a role are those of the roles that its selectors pick, selector by selector, within each by
name, every rule once. Other changes of the rules are overwritten; a role that selects no roles allows nothing. Nothing
but the rules is touched, and nothing is written when they are right. Roles may be made of roles that are made of
others; each level follows the one below.

Not guaranteed: an instant at which all levels agree. Two roles that pick each other keep what either once had, as
upstream: a rule that both have is there because the other has it.

docs/controllers/clusterrole_aggregation.md has where it differs from upstream.
"""

from pilothouse.api.rbac import CLUSTER_ROLES
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

DESCRIPTOR = Descriptor(
    name="clusterrole-aggregation-controller",
    aliases=("clusterrole-aggregation",),
    client_name="clusterrole-aggregation-controller",
    watches=(Watch(kind=CLUSTER_ROLES, keep_raw=True),),
    package=__name__,
)
