"""The error of a process that has ended."""


class ProgramsFailed(Exception):
    """The process of the programs has ended with an error, which it has printed."""
