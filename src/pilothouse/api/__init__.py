"""The API types as frozen msgspec structs, which declare the fields that this project reads, and no behavior.

A struct here is a *view*: decoding drops every field that it does not declare, so a view must never be written back
(docs/design/views.md). Writes send a new object, a patch, or raw JSON with named fields replaced.
"""
