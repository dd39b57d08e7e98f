"""Controllers that call a cloud provider: load balancers, routes, deleted machines.

Upstream has moved them out of its program, into the cloud controller managers of the clouds
(``k8s.io/cloud-provider``). Here they run when ``--cloud-loops`` names a provider.
"""
