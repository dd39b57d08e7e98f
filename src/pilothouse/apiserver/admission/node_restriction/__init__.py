"""NodeRestriction: a node writes its own objects, and about the pods that are bound to it.

After kubernetes' ``plugin/pkg/admission/noderestriction/admission.go`` (v1.36), with its gates as they are by default.
``plugin`` finds the rule of a write; ``mirror_pods``, ``nodes`` and ``token_requests`` are the rules that take more
than a comparison. The Node authorizer leaves to them what only the object shows, not the request's path.
"""
