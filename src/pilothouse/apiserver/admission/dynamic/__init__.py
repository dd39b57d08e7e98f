"""Admission that users configure: policies with expressions in CEL, and webhooks.

``configurations`` keeps what is configured, ``matching`` says which writes it is about, ``requests`` makes the
AdmissionRequest that expressions and webhooks see, ``expressions`` evaluates, ``policies``, ``mutating_policies`` and
``webhooks`` are the plugins, ``webhook_calls`` sends. After k8s.io/apiserver ``pkg/admission/plugin/{policy,webhook}``
(v0.36).
"""
