"""Audit: who asked what of the API server, and what the answer was.

After apiserver's ``pkg/audit``, ``pkg/apis/audit``, ``pkg/endpoints/filters/audit.go`` and ``plugin/pkg/audit``
(v0.36). ``reader`` and ``validation`` read a policy, and ``checker`` decides by it how much of a request is recorded.
``context`` holds the event of the request under way, and ``filter`` surrounds the handling of a request. ``backend``
encodes and truncates events; ``writer`` buffers and writes them, to a file that ``rotation`` rotates.
"""
