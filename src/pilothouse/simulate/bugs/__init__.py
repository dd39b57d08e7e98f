"""Known bugs of Kubernetes' controllers, each as scenarios that run with the guard against it and without.

``catalogue`` lists all. A ``Bug`` (``declaration``) says what went wrong upstream, where that was discussed, and what
keeps it from happening here. Its scenarios are coroutines that run in a simulation. ``running`` runs one of them: with
the guard it must pass; without the guard, which is taken away for the time of that run, it must fail for the reason
that is declared. Each module holds the bugs of one area of controllers.
"""
