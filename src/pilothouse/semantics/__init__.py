"""What the fields of Pods and Nodes mean, pure. Everybody above asks here instead of reading conditions himself."""
