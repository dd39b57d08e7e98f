"""PodSecurity: which pods a namespace takes, by the labels ``pod-security.kubernetes.io/…``.

After pod-security-admission's ``admission/admission.go`` (v0.36). ``levels`` reads labels, ``violations`` checks pods.
What ``audit`` asks for goes to the audit event of the request.
"""
