"""The state of the scheduler: the cache of nodes and pods, and the queue of pending pods."""
