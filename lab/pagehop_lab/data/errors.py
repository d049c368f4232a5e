"""What is wrong with a set."""


class DataError(Exception):
    """A set that is not there, cannot be read, or is not what it says."""
