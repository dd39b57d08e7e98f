"""The history of templates, kept as ControllerRevisions: for DaemonSets and StatefulSets.

``revisions`` is pure: what a revision holds, is called, is equal to, and which are to go. ``control`` claims, makes,
renumbers and deletes them. What a controller does with a name that is taken is its own affair.
"""

from pilothouse.controllers.shared.history.control import History
from pilothouse.controllers.shared.history.revisions import (
    doomed,
    new_revision,
    newest,
    next_number,
    revision_hash,
    revision_name,
    same_data,
    template_in,
    template_patch,
)

__all__ = [
    "History",
    "doomed",
    "new_revision",
    "newest",
    "next_number",
    "revision_hash",
    "revision_name",
    "same_data",
    "template_in",
    "template_patch",
]
