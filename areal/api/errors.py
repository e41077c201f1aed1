"""The errors of the training package: one tree, so that callers catch as finely as they need."""


class ArealError(Exception):
    """The root of every error that this package raises on purpose."""


class ConfigError(ArealError, ValueError):
    """A configuration value is unknown, of the wrong type or impossible here."""


class UnknownNameError(ArealError, ValueError):
    """A name is in no registry and is no importable dotted path."""


class DatasetError(ArealError, ValueError):
    """A dataset cannot be found, or lacks what its loader needs."""


class UnsupportedDatasetError(DatasetError, NotImplementedError):
    """A dataset cannot have rows of the type that is asked for."""


class TrajectoryError(ArealError, ValueError):
    """A workflow returned something that cannot be trained on."""


class RewardError(ArealError, RuntimeError):
    """A reward could not be computed: this is not the same as a reward of 0.0."""


class RewardTimeoutError(RewardError, TimeoutError):
    """A reward ran past its time limit on every attempt."""


class RewardWorkerDiedError(RewardError):
    """The process that computed a reward ended without an answer on every attempt."""


class TrainingError(ArealError, RuntimeError):
    """A model under training is beyond use."""


class EpisodeFailureError(ArealError, RuntimeError):
    """More than half of at least 64 consecutive episodes failed: training stops with the cause."""


class NoRoomError(ArealError, RuntimeError):
    """A prompt leaves no room for an answer, in the model's context or below ``max_tokens``."""


class RankError(ArealError, RuntimeError):
    """One of several processes failed or is missing; starting all of them again may help."""
