"""Audit: records requests to the API server and their responses.

After apiserver's ``pkg/audit``, ``pkg/apis/audit``, ``pkg/endpoints/filters/audit.go`` and ``plugin/pkg/audit``
(v0.36). ``reader`` and ``validation`` read a policy, and ``checker`` evaluates it to the level of a request.
``context`` holds the event of the current request, and ``filter`` wraps the handler. ``backend`` encodes and truncates
events; ``writer`` buffers and writes them, to a file that ``rotation`` rotates.
"""
