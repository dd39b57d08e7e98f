"""``pilothouse simulate``: what would happen to a cluster, found out in virtual time.

* ``scenario`` reads the file: a cluster, what happens to it, and what has to hold.
* ``run`` performs it once, for one seed, in this process: ``cluster`` builds the simulation, ``timeline`` and
  ``actions`` change it, ``expectations`` and ``budgets`` check it.
* ``search`` runs many seeds and shrinks what fails; ``jobs`` and ``workers`` make the runs, in this process or several.
  ``variants`` are the combinations of settings that are compared, ``progress`` shows how far it is, and ``outputs``
  writes the results.
* ``recording`` observes a run and keeps what its report shows.
* ``bugs`` has the known bugs of Kubernetes' controllers, with the guards against them and without.
* ``report`` draws recordings: one HTML file, or one SVG.

Nothing here is imported by a plane or by a test that needs none.
"""
