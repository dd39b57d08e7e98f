"""What plugins and the scheduling algorithm share: the types of pods and nodes, statuses, and running the plugins."""
