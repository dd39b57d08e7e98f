"""The screen of ``pilothouse top``: the cluster in a terminal, as it is and as it was.

* ``feeds`` lists and watches, ``model`` has the rows, ``ordered`` their order.
* ``views`` and ``program_views`` say what is on each line, ``details`` what there is to see of one object, ``metrics``
  samples controllers and scheduler. None of them draws.
* ``grid`` draws lines, ``app`` has the keys; only they need Textual, which is an extra.
"""
