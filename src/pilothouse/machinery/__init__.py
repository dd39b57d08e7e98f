"""Rules for any object, pure: labels, fields, patches, quantities, names, times, splicing of raw JSON.

Nothing here knows a kind; what the fields of Pods and Nodes mean is said in ``pilothouse.semantics``.
"""
