"""Log records as JSON, one on each line."""

from __future__ import annotations

import datetime
import logging

import orjson

FACTS = "facts"
"""The name under which a record's ``extra`` holds what programs want to read."""


class JsonFormatter(logging.Formatter):
    """Time, level, logger and message, the facts of a record, and its stack trace."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, object] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, FACTS, {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()
