"""Every controller that there is, by descriptor. Importing this imports no controller."""

from pilothouse.controllers.cleanup.garbage_collector import DESCRIPTOR as GARBAGE_COLLECTOR
from pilothouse.controllers.cleanup.namespace import DESCRIPTOR as NAMESPACE
from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR as POD_GARBAGE_COLLECTOR
from pilothouse.controllers.cleanup.storage_version_migrator import DESCRIPTOR as STORAGE_VERSION_MIGRATOR
from pilothouse.controllers.cleanup.storageversion_garbage_collector import DESCRIPTOR as STORAGE_VERSION_GC
from pilothouse.controllers.cleanup.ttl_after_finished import DESCRIPTOR as TTL_AFTER_FINISHED
from pilothouse.controllers.cloud.cloud_node_lifecycle import DESCRIPTOR as CLOUD_NODE_LIFECYCLE
from pilothouse.controllers.cloud.node_route import DESCRIPTOR as NODE_ROUTE
from pilothouse.controllers.cloud.service_lb import DESCRIPTOR as SERVICE_LB
from pilothouse.controllers.devices.device_taint_eviction import DESCRIPTOR as DEVICE_TAINT_EVICTION
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR as RESOURCE_CLAIM
from pilothouse.controllers.devices.resourcepoolstatusrequest import DESCRIPTOR as RESOURCE_POOL_STATUS
from pilothouse.controllers.identity.bootstrap_signer import DESCRIPTOR as BOOTSTRAP_SIGNER
from pilothouse.controllers.identity.certificatesigningrequest_approving import DESCRIPTOR as REQUEST_APPROVING
from pilothouse.controllers.identity.certificatesigningrequest_cleaner import DESCRIPTOR as REQUEST_CLEANER
from pilothouse.controllers.identity.certificatesigningrequest_signing import DESCRIPTOR as REQUEST_SIGNING
from pilothouse.controllers.identity.clusterrole_aggregation import DESCRIPTOR as CLUSTER_ROLE_AGGREGATION
from pilothouse.controllers.identity.kube_apiserver_serving_clustertrustbundle_publisher import (
    DESCRIPTOR as TRUST_BUNDLE_PUBLISHER,
)
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner import DESCRIPTOR as LEGACY_TOKEN_CLEANER
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR as POD_REQUEST_CLEANER
from pilothouse.controllers.identity.root_ca_certificate_publisher import DESCRIPTOR as ROOT_CA_PUBLISHER
from pilothouse.controllers.identity.serviceaccount import DESCRIPTOR as SERVICE_ACCOUNT
from pilothouse.controllers.identity.serviceaccount_token import DESCRIPTOR as TOKENS
from pilothouse.controllers.identity.token_cleaner import DESCRIPTOR as TOKEN_CLEANER
from pilothouse.controllers.network.endpoints import DESCRIPTOR as ENDPOINTS
from pilothouse.controllers.network.endpointslice import DESCRIPTOR as ENDPOINT_SLICE
from pilothouse.controllers.network.endpointslice_mirroring import DESCRIPTOR as ENDPOINT_SLICE_MIRRORING
from pilothouse.controllers.network.service_cidr import DESCRIPTOR as SERVICE_CIDR
from pilothouse.controllers.node.node_ipam import DESCRIPTOR as NODE_IPAM
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR as NODE_LIFECYCLE
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR as TAINT_EVICTION
from pilothouse.controllers.node.ttl import DESCRIPTOR as TTL
from pilothouse.controllers.policy.disruption import DESCRIPTOR as DISRUPTION
from pilothouse.controllers.policy.resourcequota import DESCRIPTOR as RESOURCE_QUOTA
from pilothouse.controllers.policy.validatingadmissionpolicy_status import DESCRIPTOR as POLICY_STATUS
from pilothouse.controllers.volumes.ephemeral_volume import DESCRIPTOR as EPHEMERAL_VOLUME
from pilothouse.controllers.volumes.persistentvolume_attach_detach import DESCRIPTOR as ATTACH_DETACH
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR as PERSISTENT_VOLUME_BINDER
from pilothouse.controllers.volumes.persistentvolume_expander import DESCRIPTOR as PERSISTENT_VOLUME_EXPANDER
from pilothouse.controllers.volumes.persistentvolume_protection import DESCRIPTOR as PERSISTENT_VOLUME_PROTECTION
from pilothouse.controllers.volumes.persistentvolumeclaim_protection import DESCRIPTOR as CLAIM_PROTECTION
from pilothouse.controllers.volumes.selinux_warning import DESCRIPTOR as SELINUX_WARNING
from pilothouse.controllers.volumes.volumeattributesclass_protection import DESCRIPTOR as ATTRIBUTES_CLASS_PROTECTION
from pilothouse.controllers.workloads.cronjob import DESCRIPTOR as CRON_JOB
from pilothouse.controllers.workloads.daemonset import DESCRIPTOR as DAEMON_SET
from pilothouse.controllers.workloads.deployment import DESCRIPTOR as DEPLOYMENT
from pilothouse.controllers.workloads.horizontal_pod_autoscaler import DESCRIPTOR as HORIZONTAL_POD_AUTOSCALER
from pilothouse.controllers.workloads.job import DESCRIPTOR as JOB
from pilothouse.controllers.workloads.podgroup_protection import DESCRIPTOR as POD_GROUP_PROTECTION
from pilothouse.controllers.workloads.replicaset import DESCRIPTOR as REPLICA_SET
from pilothouse.controllers.workloads.replicationcontroller import DESCRIPTOR as REPLICATION_CONTROLLER
from pilothouse.controllers.workloads.statefulset import DESCRIPTOR as STATEFUL_SET
from pilothouse.runtime.descriptor import Descriptor

DESCRIPTORS: tuple[Descriptor, ...] = (
    REQUEST_APPROVING,
    REQUEST_CLEANER,
    REQUEST_SIGNING,
    CLOUD_NODE_LIFECYCLE,
    BOOTSTRAP_SIGNER,
    CLUSTER_ROLE_AGGREGATION,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_TAINT_EVICTION,
    DISRUPTION,
    ENDPOINT_SLICE,
    ENDPOINT_SLICE_MIRRORING,
    ENDPOINTS,
    EPHEMERAL_VOLUME,
    GARBAGE_COLLECTOR,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    TRUST_BUNDLE_PUBLISHER,
    LEGACY_TOKEN_CLEANER,
    NAMESPACE,
    NODE_IPAM,
    NODE_LIFECYCLE,
    ATTACH_DETACH,
    NODE_ROUTE,
    PERSISTENT_VOLUME_BINDER,
    PERSISTENT_VOLUME_EXPANDER,
    PERSISTENT_VOLUME_PROTECTION,
    CLAIM_PROTECTION,
    POD_GARBAGE_COLLECTOR,
    POD_REQUEST_CLEANER,
    POD_GROUP_PROTECTION,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_POOL_STATUS,
    RESOURCE_QUOTA,
    ROOT_CA_PUBLISHER,
    SELINUX_WARNING,
    SERVICE_ACCOUNT,
    TOKENS,
    SERVICE_CIDR,
    SERVICE_LB,
    STATEFUL_SET,
    STORAGE_VERSION_GC,
    STORAGE_VERSION_MIGRATOR,
    TAINT_EVICTION,
    TOKEN_CLEANER,
    TTL,
    TTL_AFTER_FINISHED,
    ATTRIBUTES_CLASS_PROTECTION,
    POLICY_STATUS,
)
"""In the order in which they are built and started."""
