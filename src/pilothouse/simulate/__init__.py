"""``pilothouse simulate``: what would happen to a cluster, found out in virtual time.

* ``recording`` observes a run and keeps what its report shows.
* ``report`` draws recordings: one HTML file, or one SVG.
"""
