"""The errors of the library; each is a subclass of the built-in error that a user would catch."""

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ColumnError",
    "ColumnTypeError",
    "ColumnWarning",
    "DatasetMismatchError",
    "DatasetUnavailableError",
    "ForkedProcessError",
    "MissingPackageError",
    "PersistenceError",
]


class ArgumentError(ValueError):
    """An argument has an invalid value."""


class ArgumentTypeError(TypeError):
    """An argument has an invalid type."""


class ColumnError(ValueError):
    """A column of the table has invalid values; the message names the column."""


class ColumnTypeError(ColumnError, TypeError):
    """A column of the table has an invalid type; the message names the column."""


class ColumnWarning(UserWarning):
    """A column of the table is unusual; the message names the column, its treatment, and the next step."""


class MissingPackageError(ImportError):
    """An optional package is not installed; the message has the command to install it."""


class DatasetMismatchError(ValueError):
    """A file differs from the data set in the registry; the message names the file and every difference."""


class DatasetUnavailableError(OSError):
    """A data set is not on this machine and cannot be downloaded; the message has the reason and the next step."""


class ForkedProcessError(RuntimeError):
    """Networks cannot be used in a forked process; the message explains how to start processes instead."""


class PersistenceError(ValueError):
    """A file is not a valid saved estimator, or an estimator cannot be saved; the message has the next step."""
