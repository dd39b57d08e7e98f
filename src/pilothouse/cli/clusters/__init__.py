"""Clusters in the background, as kind has them: ``pilothouse create cluster``, ``list``, ``stop``, ``delete``, ...

Each is a process of ``pilothouse up`` with its own directory (``cluster``), which ``process`` starts and stops;
``contexts`` adds its context to the user's kubeconfig, ``commands`` are the commands.
"""
