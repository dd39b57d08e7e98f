"""``pilothouse simulate``: runs scenarios of a cluster in virtual time.

* ``scenario`` loads and validates the file: cluster, timeline, faults, expectations.
* ``run`` executes a scenario once, for one seed, in this process: ``cluster`` builds the simulation, ``timeline`` and
  ``actions`` change it, ``expectations`` and ``budgets`` check it.
* ``search`` runs many seeds and shrinks failures; ``jobs`` and ``workers`` execute the runs, in this process or in
  several. ``variants`` are the combinations of settings that are compared, ``progress`` prints the progress, and
  ``outputs`` writes the results.
* ``recording`` observes a run and stores the data of its report.
* ``bugs`` has scenarios of known bugs of Kubernetes' controllers, each run with and without the guard against it.
* ``report`` renders recordings as an HTML page or as SVG.

Not imported by a plane, nor by tests without scenarios.
"""
