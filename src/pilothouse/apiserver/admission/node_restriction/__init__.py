"""NodeRestriction: limits the writes of a kubelet to its own objects and to the pods bound to its node.

After kubernetes' ``plugin/pkg/admission/noderestriction/admission.go`` (v1.36), with default feature gates. ``plugin``
has the admission plugin; ``mirror_pods``, ``nodes`` and ``token_requests`` have its longer rules. The Node authorizer
decides by request attributes; this plugin checks the content of objects.
"""
