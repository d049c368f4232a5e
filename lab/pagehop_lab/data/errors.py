"""What is wrong with a set."""


class DataError(Exception):
    """A set that is missing, cannot be read, or is not what its name says."""
