"""PodSecurity: enforces the Pod Security Standards by the labels ``pod-security.kubernetes.io/…`` of namespaces.

After pod-security-admission's ``admission/admission.go`` (v0.36). ``levels`` parses the labels, ``violations``
evaluates pods. Violations of the level for ``audit`` are added to the audit event.
"""
