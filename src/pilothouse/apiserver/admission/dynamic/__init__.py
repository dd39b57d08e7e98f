"""Dynamic admission control: admission policies with CEL expressions, and admission webhooks.

``configurations`` caches the configuration objects, ``matching`` matches them with writes, ``requests`` builds the
AdmissionRequest for expressions and webhooks, ``expressions`` evaluates CEL; ``policies``, ``mutating_policies`` and
``webhooks`` are the plugins, ``webhook_calls`` is the HTTP client, ``service_resolver`` finds the address of a Service.
After k8s.io/apiserver ``pkg/admission/plugin/{policy,webhook}`` (v0.36).
"""
