"""The structured allocator: which devices a pod's claims get on a node. Pure, in steps of bounded time.

As k8s.io/dynamic-resource-allocation v0.36 ``structured/internal/incubating``, the allocator that kube-scheduler v1.36
uses with its default feature gates: admin access, prioritized lists, partitionable devices, device taints, binding
conditions and consumable capacity are on; attributes with lists of values (``DRAListTypeAttributes``) are off.
"""
