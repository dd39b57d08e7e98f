"""Sets the rules of aggregated ClusterRoles, which have an ``aggregationRule``, among them ``admin``, ``edit``
and ``view``.

Behaviour: the rules of such a role are the union of the rules of the roles that its selectors match, selector by
selector, each sorted by name, without duplicates. Manual changes of the rules are overwritten, unless the selectors
match nothing: then only the rules that the controller applied are removed. Nothing but the rules is changed, and
nothing is written if they are correct. Aggregated roles may be aggregated again.

Not guaranteed: that all levels are consistent at any moment. Two roles that select each other keep rules that either of
them once had, as upstream.

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
