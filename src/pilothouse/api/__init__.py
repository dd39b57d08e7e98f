"""The types: frozen msgspec structs that declare what some code here reads, and no behaviour.

A struct here is a *view*: decoding drops every field it does not declare, so a view must never be written back
(docs/design/views.md). What is written is a new object, a patch, or raw JSON with named fields replaced.
"""
