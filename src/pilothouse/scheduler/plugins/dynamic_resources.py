"""DynamicResources: the messages of its PostFilter, which runs before preemption.

Claims are not allocated here. As kube-scheduler v1.36 ``plugins/dynamicresources/dynamicresources.go``.
"""

NO_CLAIMS_TO_DEALLOCATE = "no new claims to deallocate"
"""The message for a pod without claims."""
STATE_NOT_FOUND = "not found"
"""The message for a pod that another plugin rejected on all nodes before the PreFilter of this one. It is upstream's
error about the missing state, after which preemption is not tried."""
