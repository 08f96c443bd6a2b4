"""The errors that nescio raises on purpose.

NescioError
├── InputError           an argument has the wrong type, shape or value (also a ValueError)
│   └── NotFiniteError   what a network gives is NaN, infinite or too large to compute with
├── DataError            a data set or a data file is not what it should be
│   └── FetchError       no source could provide a data set
├── ModelFileError       a model file or checkpoint is damaged, foreign or of another version
├── TrainingError        a training can't go on, or can't be resumed
└── MissingExtraError    an optional package is not installed (also an ImportError)

A message names the argument or file, what was expected and what came, on one line.
"""


class NescioError(Exception):
    """Base of every error raised on purpose."""


class InputError(NescioError, ValueError):
    """An argument has the wrong type, shape or value."""


class NotFiniteError(InputError):
    """What a network gives is NaN, infinite or too large to compute with."""


class DataError(NescioError):
    """A data set or a data file is not what it should be."""


class FetchError(DataError):
    """No source could provide a data set; the message lists what was tried."""


class ModelFileError(NescioError):
    """A model file or checkpoint is damaged, foreign or of another version."""


class TrainingError(NescioError):
    """A training can't go on, or can't be resumed."""


class MissingExtraError(NescioError, ImportError):
    """An optional package is not installed."""

    def __init__(self, extra: str, package: str) -> None:
        super().__init__(f"{package} is not installed; install it with: pip install 'nescio[{extra}]'")


class NescioWarning(UserWarning):
    """Something was done that the caller may not want; the message says what to do."""
