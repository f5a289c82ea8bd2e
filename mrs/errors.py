"""The one exception tree of mrs.

Every error that a user can meet is an `MrsError`: it has a stable ``code``, a sentence that names
the thing and the value, and, in ``hint``, the next step to take. The command line prints exactly
that and exits with ``exit_code``; the server maps the `RequestError` branch to HTTP.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MrsError(Exception):
    """Base of all errors that mrs raises on purpose.

    Args:
        message: one sentence that names the thing and the value that was wrong.
        hint: the next step to take, as a sentence; empty if there is none.
        param: the name of the option or request field at fault, if one is.
    """

    code: ClassVar[str] = "internal_error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.param = param

    def as_dict(self) -> dict[str, Any]:
        """The error as the ``--json`` output of the command line shows it."""
        return {"code": self.code, "message": self.message, "hint": self.hint or None}


# --- the command line was used wrongly: exit code 2 (as Click's own usage errors) ---------------


class UsageError(MrsError):
    """An option or argument has a value that cannot be honoured."""

    code = "invalid_usage"
    exit_code = 2


# --- where a model comes from: exit code 3 -------------------------------------------------------


class SourceError(MrsError):
    """A model source cannot be reached or understood."""

    code = "source_error"
    exit_code = 3


class SourceNotFoundError(SourceError):
    """The named file, package or model does not exist."""

    code = "source_not_found"


class DownloadError(SourceError):
    """A download failed, or its bytes do not match the published hash."""

    code = "download_failed"


# --- what is inside a checkpoint: exit code 4 ----------------------------------------------------


class CheckpointError(MrsError):
    """A checkpoint file cannot be exported."""

    code = "checkpoint_error"
    exit_code = 4


class CorruptCheckpointError(CheckpointError):
    """The file is truncated, is not what its name says, or its header lies."""

    code = "checkpoint_corrupt"


class UnsupportedArchitectureError(CheckpointError):
    """The checkpoint is of a model family that mrs cannot export."""

    code = "unsupported_architecture"


class UnsupportedTensorTypeError(CheckpointError):
    """A tensor has a storage type that mrs cannot read."""

    code = "unsupported_tensor_type"


class UnsupportedTokenizerError(CheckpointError):
    """The vocabulary or its pre-tokenizer is of a kind that mrs cannot convert."""

    code = "unsupported_tokenizer"


class ChatTemplateError(MrsError):
    """A chat template does not compile, exceeds its bounds, or refuses the messages."""

    code = "chat_template_error"
    exit_code = 4


# --- the model repository: exit code 5 -----------------------------------------------------------


class RepositoryError(MrsError):
    """The model repository cannot do what was asked."""

    code = "repository_error"
    exit_code = 5


class InvalidReferenceError(RepositoryError):
    """A model reference or name is malformed."""

    code = "invalid_reference"


class ModelNotFoundError(RepositoryError):
    """No such model or version is in the repository."""

    code = "model_not_found"


class CorruptVersionError(RepositoryError):
    """A version's files do not match its lock, or it is malformed."""

    code = "version_corrupt"


class SignatureError(RepositoryError):
    """A version is not signed, or is not what was signed."""

    code = "signature_invalid"


class StorageError(MrsError):
    """The disk is full, or a path cannot be read or written."""

    code = "storage_error"
    exit_code = 6


# --- running a model: exit code 7 ----------------------------------------------------------------


class RuntimeUnavailableError(MrsError):
    """ONNX Runtime, or an extra that the command needs, is not installed or too old."""

    code = "runtime_unavailable"
    exit_code = 7


class ModelLoadError(MrsError):
    """An artifact was found but cannot be loaded."""

    code = "model_load_failed"
    exit_code = 7


class EngineError(MrsError):
    """A step of the engine failed; the sequences in it end with this error."""

    code = "engine_error"
    exit_code = 7


# --- a demand on an export is not met: exit codes 8 and 9 -----------------------------------------


class QualityError(MrsError):
    """A model is not as near to its checkpoint as was demanded, or that is not known.

    Attributes:
        figures: what was measured and demanded, as JSON values.
    """

    code = "quality_gate_failed"
    exit_code = 8

    def __init__(self, message: str, *, figures: dict[str, Any], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.figures = figures

    def as_dict(self) -> dict[str, Any]:
        """The error with its figures."""
        return super().as_dict() | {"figures": self.figures}


class QualityUnknownError(QualityError):
    """A demand on the quality of a model cannot be checked, since it was not measured."""

    code = "quality_not_measured"


class LockedError(MrsError):
    """A locked export would give something else than the version that it is held to.

    Attributes:
        differences: one JSON object for each: ``what``, ``locked`` and ``now``.
    """

    code = "locked_export_differs"
    exit_code = 9

    def __init__(self, message: str, *, differences: list[dict[str, Any]], hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.differences = differences

    def as_dict(self) -> dict[str, Any]:
        """The error with all differences."""
        return super().as_dict() | {"differences": self.differences}


# --- one request is at fault: a 4xx over HTTP ----------------------------------------------------


class RequestError(MrsError):
    """A generation request that cannot be honoured; it hurts no other request."""

    code = "invalid_request"
    exit_code = 2
    status: ClassVar[int] = 400


class InvalidValueError(RequestError):
    """A field of the request has a value outside what it may be."""

    code = "invalid_value"


class ContextLengthExceededError(RequestError):
    """Prompt plus requested tokens do not fit the model's context."""

    code = "context_length_exceeded"


class UnknownModelError(RequestError):
    """The request names a model that is not served."""

    code = "model_not_found"
    status = 404


class QueueFullError(RequestError):
    """The waiting queue is at its bound; the client may retry after ``retry_after`` seconds."""

    code = "queue_full"
    status = 429

    def __init__(self, message: str, *, retry_after: int = 1, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class RequestTimeoutError(RequestError):
    """The answer took longer than the request allows."""

    code = "request_timeout"
    status = 408


class ShuttingDownError(RequestError):
    """The server is draining and takes no new requests."""

    code = "shutting_down"
    status = 503
