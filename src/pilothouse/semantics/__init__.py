"""The meaning of the fields of Pods, Nodes and other kinds. Pure. Higher packages use these functions instead of
reading conditions themselves."""
