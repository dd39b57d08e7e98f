"""Recorded responses of kube-apiserver v1.36.2 to generated requests, and a player that sends them to our server.

Recorded with ``--authorization-mode=RBAC``, the default admission plugins but ServiceAccount, default feature gates,
and no controllers beside it. Each line of a file in ``data`` is one scenario: its seed, the requests as they were sent,
and the answers, code and body.
"""
