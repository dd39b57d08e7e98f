"""Reports of runs: recordings drawn as one HTML file or as one SVG.

Everything is a pure function of recordings. What is drawn is merged to what can be seen and lists have bounds: the size
of a report does not depend on the length of the run or the size of the cluster.

* ``html`` (``page``) and ``svg`` (``plot``) are the files of one run, ``comparison`` has those of several. ``plot``
  composes panels on one ``axis``.
* ``workloads``, ``nodes``, ``rows`` and ``marks`` draw panels; ``curves`` makes paths of series; ``tables`` has the
  numbers.
* ``markup`` escapes, ``styles`` has the colours, ``texts`` the numbers and times as people read them.
"""

from pilothouse.simulate.report.comparison import comparison_html, comparison_svg
from pilothouse.simulate.report.page import html
from pilothouse.simulate.report.plot import svg

__all__ = ["comparison_html", "comparison_svg", "html", "svg"]
