"""The errors of the library, each a kind of the built-in error that a user would catch."""

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "ColumnError",
    "ColumnTypeError",
    "DatasetMismatchError",
    "DatasetUnavailableError",
    "MissingPackageError",
    "PersistenceError",
]


class ArgumentError(ValueError):
    """An argument has a value that cannot be used."""


class ArgumentTypeError(TypeError):
    """An argument has a type that cannot be used."""


class ColumnError(ValueError):
    """A column of the table holds values that cannot be used; the message names the column."""


class ColumnTypeError(ColumnError, TypeError):
    """A column of the table has a type that cannot be used; the message names the column."""


class MissingPackageError(ImportError):
    """An optional package is needed and not installed; the message says how to install it."""


class DatasetMismatchError(ValueError):
    """A data set is there and is not the one of the study; the message names the file and every difference."""


class DatasetUnavailableError(OSError):
    """A data set is not on this machine and cannot be fetched; the message says why, and what to do."""


class PersistenceError(ValueError):
    """A file cannot be read as a saved estimator, or an estimator not be saved; the message says what to do."""
