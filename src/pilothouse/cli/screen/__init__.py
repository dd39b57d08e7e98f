"""The screen of ``pilothouse top``: the current or a past state of the cluster in a terminal.

* ``feeds`` lists and watches, ``model`` has the rows, ``ordered`` their order.
* ``views`` and ``program_views`` compute the lines of the views, ``details`` the text about one object, ``metrics``
  samples controllers and scheduler. None of them draws.
* ``grid`` draws lines, ``app`` handles keys; only they need Textual, which is an extra.
"""
