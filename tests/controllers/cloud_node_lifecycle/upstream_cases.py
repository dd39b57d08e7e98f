"""The cases of k8s.io/cloud-provider v0.36 ``controllers/nodelifecycle/node_lifecycle_controller_test.go``, and where
each of them is. Whether a cloud has upstream's older or newer interface is no question here."""

from tests.controllers.upstream_coverage import NOT, Cases

_BECOMES, _MUTE = "test_node_by_instance_state", "test_cloud_provider_error_skips_only_one_node"

COVERED: Cases = {
    "Test_NodesDeleted: node is not ready and does not exist": _BECOMES,
    "Test_NodesDeleted: node is not ready and provider returns err": _MUTE,
    "Test_NodesDeleted: node is not ready but still exists": _BECOMES,
    "Test_NodesDeleted: node ready condition is unknown, node doesn't exist": _BECOMES,
    "Test_NodesDeleted: node ready condition is unknown, node exists": _BECOMES,
    "Test_NodesDeleted: node is ready, but provider said it is deleted": _BECOMES,
    "Test_NodesShutdown: node is not ready and was shutdown, but exists": _BECOMES,
    "Test_NodesShutdown: node with empty spec providerID is not ready and was shutdown, but exists": _BECOMES,
    "Test_NodesShutdown: node with non-existing providerID gets deleted": _BECOMES,
    "Test_NodesShutdown: node with error when getting providerID does not have shutdown taint": _MUTE,
    "Test_NodesShutdown: node with InstanceID returning InstanceNotFound gets deleted": _BECOMES,
    "Test_NodesShutdown: node is not ready, but there is error checking if node is shutdown": _MUTE,
    "Test_NodesShutdown: node is not ready and is not shutdown": _BECOMES,
    "Test_NodesShutdown: node is ready but provider says it's shutdown": _BECOMES,
    "Test_NodesShutdown: node is shutdown but provider says it does not exist": _BECOMES,
    "Test_GetProviderID": NOT + "a provider is asked about a node, not about an id that the controller has found out",
}
