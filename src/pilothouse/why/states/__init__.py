"""What is remarkable about an object of each kind, and what that follows from.

Each module has functions that take a ``View`` of one object and give its ``Finding``, or None if there is nothing that
it knows to say. ``REMARKS`` lists them by resource; the first that finds something has the word.
"""
