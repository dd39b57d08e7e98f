"""Rules for any object, pure: labels, fields, patches, quantities, names, times, splicing of raw JSON.

Nothing here depends on a kind; the meaning of the fields of Pods and Nodes is in ``pilothouse.semantics``.
"""
