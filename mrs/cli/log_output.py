"""Where the log of a long-running command goes: stderr, one line a record."""

from __future__ import annotations

from enum import StrEnum


class LogLevel(StrEnum):
    """The least severe records that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a record is written."""

    TEXT = "text"
    JSON = "json"


def log_to_stderr(level: LogLevel, form: LogFormat = LogFormat.TEXT) -> None:
    """Write what mrs logs, and what uvicorn warns of, to stderr."""
    import logging.config

    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "text": {
                    "format": "%(asctime)s %(levelname)s %(message)s",
                    "datefmt": "%Y-%m-%d %H:%M:%S",
                },
                "json": {"()": "mrs.server.json_log.JsonFormatter"},
            },
            "handlers": {
                "stderr": {
                    "class": "logging.StreamHandler",
                    "stream": "ext://sys.stderr",
                    "formatter": form.value,
                }
            },
            "loggers": {
                "mrs": _logger(level.upper()),
                # What it says at INFO of starting and stopping, mrs says itself.
                "uvicorn": _logger("ERROR" if level is LogLevel.ERROR else "WARNING"),
            },
        }
    )


def _logger(level: str) -> dict[str, object]:
    return {"level": level, "handlers": ["stderr"], "propagate": False}
