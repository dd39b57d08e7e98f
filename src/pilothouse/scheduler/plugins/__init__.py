"""The plugins of the default profile, one module each (kube-scheduler v1.36 ``pkg/scheduler/framework/plugins``)."""
