"""The types of pods and nodes, statuses, and running the plugins; shared by plugins and the scheduling algorithm."""
