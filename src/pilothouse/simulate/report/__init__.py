"""Reports of runs: recordings rendered as an HTML page or as SVG.

Everything is a pure function of recordings. Points are merged to the resolution of the picture and lists are bounded:
the size of a report does not depend on the length of the run or the size of the cluster.

* ``html`` (``page``) and ``svg`` (``plot``) render one run, ``comparison`` several. ``plot`` arranges panels on one
  ``axis``.
* ``workloads``, ``nodes``, ``rows`` and ``marks`` render panels; ``curves`` converts series to SVG paths; ``tables``
  renders the tables.
* ``markup`` escapes text, ``styles`` has the colors, ``texts`` formats numbers and times.
"""

from pilothouse.simulate.report.comparison import comparison_html, comparison_svg
from pilothouse.simulate.report.page import html
from pilothouse.simulate.report.plot import svg

__all__ = ["comparison_html", "comparison_svg", "html", "svg"]
