"""Owner references that contradict the cluster or each other, in both orders: the matrix of kubernetes#92743.

The rows are the scenarios of TestConflictingData (garbagecollector_test.go, v1.36), reduced to the events
of the graph and the requests it causes. A *lookup* that finds nothing is the event ``disproved``.
"""

from tests.controllers.garbage_collector.histories import History, identity

POD1 = identity("v1/Pod ns1/pod1=pod1")
POD1_NOWHERE = identity("v1/Pod /pod1=pod1")
POD2 = identity("v1/Pod ns1/pod2=pod2")
POD2_NS2 = identity("v1/Pod ns2/pod2=pod2")
NODE = identity("v1/Node /node=node")
ROLE = identity("rbac.authorization.k8s.io/v1/Role ns1/role=role")
ROLE_BETA = identity("rbac.authorization.k8s.io/v1beta1/Role ns1/role=role")
DEPLOYMENT = identity("apps/v1/Deployment ns1/web=web")
DEPLOYMENT_OLD = identity("extensions/v1beta1/Deployment ns1/web=web")
SECRET_WITH_DEPLOYMENTS_UID = identity("v1/Secret ns1/secret=web")
BAD_CHILD = identity("v1/Pod ns1/bad=bad")
GOOD_CHILD = identity("v1/Pod ns1/good=good")


def test_namespaced_child_of_a_cluster_scoped_owner_child_first() -> None:
    history = History()
    assert history.show(POD1, NODE) == ["delete? virtual v1/Node ns1/node"]
    assert history.show(NODE) == [], "the child's reference was right, only the guessed namespace was not"
    assert history.nodes() == ["v1/Node /node", "v1/Pod ns1/pod1"]


def test_namespaced_child_of_a_cluster_scoped_owner_owner_first() -> None:
    history = History()
    assert history.show(NODE) == []
    assert history.show(POD1, NODE) == []


WRONG_NAMESPACE = 'ownerRef [v1/Pod, namespace: ns1, name: pod2, uid: pod2] does not exist in namespace "ns1"'


def test_owner_in_another_namespace_child_first() -> None:
    history = History()
    assert history.show(POD1, POD2_NS2) == ["delete? virtual v1/Pod ns1/pod2"]
    assert history.show(POD2_NS2) == [f"pod1: {WRONG_NAMESPACE}", "delete? v1/Pod ns1/pod1"]
    assert history.gone(POD1) == []
    assert history.nodes() == ["v1/Pod ns2/pod2"]


def test_owner_in_another_namespace_owner_first() -> None:
    history = History()
    assert history.show(POD2_NS2) == []
    assert history.show(POD1, POD2_NS2) == [f"pod1: {WRONG_NAMESPACE}", "delete? v1/Pod ns1/pod1"]
    assert history.gone(POD1) == []
    assert history.nodes() == ["v1/Pod ns2/pod2"]


NO_NAMESPACE = 'ownerRef [v1/Pod, namespace: , name: pod1, uid: pod1] does not exist in namespace ""'


def test_cluster_scoped_child_of_a_namespaced_owner_child_first() -> None:
    history = History()
    assert history.show(NODE, POD1) == ["delete? virtual v1/Pod /pod1"]
    assert history.show(POD1) == [f"node: {NO_NAMESPACE}", "delete? v1/Node /node"]
    assert history.nodes() == ["v1/Node /node", "v1/Pod ns1/pod1"]


def test_cluster_scoped_child_of_a_namespaced_owner_owner_first() -> None:
    history = History()
    assert history.show(POD1) == []
    assert history.show(NODE, POD1) == [f"node: {NO_NAMESPACE}", "delete? v1/Node /node"]


def test_reference_with_another_served_version_is_verified_and_kept() -> None:
    history = History()
    assert history.show(POD1, ROLE_BETA) == ["delete? virtual rbac.authorization.k8s.io/v1beta1/Role ns1/role"]
    assert history.show(ROLE) == ["delete? v1/Pod ns1/pod1"], "the child means another version: look, it is solid"
    assert history.gone(ROLE) == ["absent rbac.authorization.k8s.io/v1/Role ns1/role", "delete? v1/Pod ns1/pod1"]
    assert history.gone(POD1) == []
    assert history.nodes() == []


def test_reference_with_an_unserved_version_child_first() -> None:
    history = History()
    assert history.show(POD1, DEPLOYMENT_OLD) == ["delete? virtual extensions/v1beta1/Deployment ns1/web"]
    assert history.show(DEPLOYMENT) == ["delete? v1/Pod ns1/pod1"]
    assert history.gone(DEPLOYMENT) == ["absent apps/v1/Deployment ns1/web", "delete? v1/Pod ns1/pod1"]
    assert history.nodes() == ["v1/Pod ns1/pod1"], "it cannot be verified, so it stays"


def test_reference_with_an_unserved_version_owner_first() -> None:
    history = History()
    assert history.show(DEPLOYMENT) == []
    assert history.show(POD1, DEPLOYMENT_OLD) == ["delete? v1/Pod ns1/pod1"]
    assert history.gone(DEPLOYMENT) == ["absent apps/v1/Deployment ns1/web", "delete? v1/Pod ns1/pod1"]


def test_absent_owner_referenced_in_two_versions_unserved_first() -> None:
    history = History()
    assert history.show(POD1, DEPLOYMENT_OLD) == ["delete? virtual extensions/v1beta1/Deployment ns1/web"]
    assert history.show(POD2, DEPLOYMENT) == ["delete? v1/Pod ns1/pod2"]
    assert history.gone(POD2) == []
    assert history.nodes() == ["v1/Pod ns1/pod1", "virtual extensions/v1beta1/Deployment ns1/web"]


def test_absent_owner_referenced_in_two_versions_served_first() -> None:
    history = History()
    assert history.show(POD2, DEPLOYMENT) == ["delete? virtual apps/v1/Deployment ns1/web"]
    assert history.show(POD1, DEPLOYMENT_OLD) == ["delete? v1/Pod ns1/pod1"]
    assert history.disproved(DEPLOYMENT) == [
        "absent apps/v1/Deployment ns1/web",
        "delete? v1/Pod ns1/pod2",
        "later delete? virtual extensions/v1beta1/Deployment ns1/web",
    ]
    assert history.gone(POD2) == []
    assert history.nodes() == ["v1/Pod ns1/pod1", "virtual extensions/v1beta1/Deployment ns1/web"]


def test_wrong_kind_with_an_existing_uid_bad_child_good_child_lookup_owner() -> None:
    history = History()
    assert history.show(BAD_CHILD, SECRET_WITH_DEPLOYMENTS_UID) == ["delete? virtual v1/Secret ns1/secret"]
    assert history.show(GOOD_CHILD, DEPLOYMENT) == ["delete? v1/Pod ns1/good"]
    assert history.disproved(SECRET_WITH_DEPLOYMENTS_UID) == [
        "absent v1/Secret ns1/secret",
        "delete? v1/Pod ns1/bad",
        "later delete? virtual apps/v1/Deployment ns1/web",
    ]
    assert history.show(DEPLOYMENT) == []
    assert history.gone(BAD_CHILD) == []
    assert history.nodes() == ["apps/v1/Deployment ns1/web", "v1/Pod ns1/good"]


def test_wrong_kind_with_an_existing_uid_bad_child_good_child_owner_lookup() -> None:
    history = History()
    history.show(BAD_CHILD, SECRET_WITH_DEPLOYMENTS_UID)
    history.show(GOOD_CHILD, DEPLOYMENT)
    assert history.show(DEPLOYMENT) == ["delete? v1/Pod ns1/bad"]
    assert history.disproved(SECRET_WITH_DEPLOYMENTS_UID) == ["absent v1/Secret ns1/secret", "delete? v1/Pod ns1/bad"]
    assert history.gone(BAD_CHILD) == []
    assert history.nodes() == ["apps/v1/Deployment ns1/web", "v1/Pod ns1/good"]


def test_wrong_kind_with_an_existing_uid_good_child_bad_child_owner() -> None:
    history = History()
    assert history.show(GOOD_CHILD, DEPLOYMENT) == ["delete? virtual apps/v1/Deployment ns1/web"]
    assert history.show(BAD_CHILD, SECRET_WITH_DEPLOYMENTS_UID) == ["delete? v1/Pod ns1/bad"]
    assert history.show(DEPLOYMENT) == [], "the owner is what was believed, and the bad child has been sent for already"
    assert history.gone(BAD_CHILD) == []
    assert history.nodes() == ["apps/v1/Deployment ns1/web", "v1/Pod ns1/good"]


def test_absent_namespaced_owner_bad_cluster_scoped_child_first() -> None:
    """kubernetes#98040."""
    history = History()
    assert history.show(NODE, POD1_NOWHERE) == ["delete? virtual v1/Pod /pod1"]
    assert history.show(POD2, POD1) == ["delete? v1/Pod ns1/pod2"], "the child's own lookup finds that it must go"
    assert history.gone(POD2) == []
    assert history.nodes() == ["v1/Node /node", "virtual v1/Pod /pod1"]


def test_namespaced_owner_observed_late_bad_cluster_scoped_child_first() -> None:
    """kubernetes#98040."""
    history = History()
    history.show(NODE, POD1_NOWHERE)
    history.show(POD2, POD1)
    assert history.show(POD1) == [f"node: {NO_NAMESPACE}", "delete? v1/Node /node"]
    assert history.nodes() == ["v1/Node /node", "v1/Pod ns1/pod1", "v1/Pod ns1/pod2"]


def test_absent_namespaced_owner_good_child_first() -> None:
    """kubernetes#98040."""
    history = History()
    assert history.show(POD2, POD1) == ["delete? virtual v1/Pod ns1/pod1"]
    assert history.show(NODE, POD1_NOWHERE) == ["delete? v1/Node /node"]
    assert history.disproved(POD1) == [
        "absent v1/Pod ns1/pod1",
        "delete? v1/Pod ns1/pod2",
        "later delete? virtual v1/Pod /pod1",
    ]
    assert history.gone(POD2) == []
    assert history.nodes() == ["v1/Node /node", "virtual v1/Pod /pod1"]
