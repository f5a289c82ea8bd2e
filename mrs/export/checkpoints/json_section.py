"""Typed access to a JSON object whose errors say which key of which file is at fault."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mrs.errors import CheckpointError, CorruptCheckpointError, SourceNotFoundError, StorageError

MAX_SIZE = (1 << 31) - 1
"""No dimension, count or length of a model is larger."""

T = TypeVar("T")


@dataclass(frozen=True)
class JsonSection:
    """An object of a JSON file.

    A value of ``null`` counts as absent, as such files mean it. The plain getters demand a key,
    those with ``optional_`` give None where it is absent.

    Attributes:
        file: name of the file.
        values: the object.
        path: keys that lead to it, each followed by a dot (``text_config.``).
        fallback: where keys are looked up that it lacks.
    """

    file: str
    values: Mapping[str, Any]
    path: str = ""
    fallback: JsonSection | None = None

    def has(self, key: str) -> bool:
        """Whether a key is there and not null."""
        return self._owner(key) is not None

    def size(self, key: str) -> int:
        """An integer from 1 to `MAX_SIZE`.

        Raises:
            CheckpointError: the key is missing or holds something else; so for all getters.
        """
        return self._demand(key, _size, "a whole number from 1")

    def optional_size(self, key: str) -> int | None:
        """An integer from 1 to `MAX_SIZE`, or None."""
        return self._get(key, _size, "a whole number from 1")

    def count(self, key: str) -> int:
        """An integer from 0 to `MAX_SIZE`."""
        return self._demand(key, _count, "a whole number from 0")

    def optional_count(self, key: str) -> int | None:
        """An integer from 0 to `MAX_SIZE`, or None."""
        return self._get(key, _count, "a whole number from 0")

    def number(self, key: str) -> float:
        """A finite number."""
        return self._demand(key, _number, "a finite number")

    def optional_number(self, key: str) -> float | None:
        """A finite number, or None."""
        return self._get(key, _number, "a finite number")

    def text(self, key: str) -> str:
        """A string."""
        return self._demand(key, _text, "a text")

    def optional_text(self, key: str) -> str | None:
        """A string, or None."""
        return self._get(key, _text, "a text")

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false; ``default`` if the key is absent and a default is given."""
        value = self._get(key, _flag, "true or false")
        if value is None:
            value = default
        if value is None:
            raise self._missing(key)
        return value

    def optional_flag(self, key: str) -> bool | None:
        """True, false, or None."""
        return self._get(key, _flag, "true or false")

    def sizes(self, key: str) -> list[int]:
        """A list of integers from 1."""
        return self._demand(key, _list_of(_size), "a list of whole numbers from 1")

    def optional_sizes(self, key: str) -> list[int] | None:
        """A list of integers from 1, or None."""
        return self._get(key, _list_of(_size), "a list of whole numbers from 1")

    def numbers(self, key: str) -> list[float]:
        """A list of finite numbers."""
        return self._demand(key, _list_of(_number), "a list of finite numbers")

    def optional_numbers(self, key: str) -> list[float] | None:
        """A list of finite numbers, or None."""
        return self._get(key, _list_of(_number), "a list of finite numbers")

    def counts(self, key: str) -> list[int]:
        """A list of integers from 0."""
        return self._demand(key, _list_of(_count), "a list of whole numbers from 0")

    def optional_counts(self, key: str) -> list[int] | None:
        """A list of integers from 0, or None."""
        return self._get(key, _list_of(_count), "a list of whole numbers from 0")

    def token_ids(self, key: str) -> list[int]:
        """Ids where one or several may be given (``"eos_token_id": 2``); empty if absent."""
        ids = self._get(key, _one_or_more, "a token id or a list of them")
        return [] if ids is None else ids

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        return self._demand(key, _list_of(_text), "a list of texts")

    def optional_texts(self, key: str) -> list[str] | None:
        """A list of strings, or None."""
        return self._get(key, _list_of(_text), "a list of texts")

    def section(self, key: str) -> JsonSection:
        """A nested object."""
        found = self.optional_section(key)
        if found is None:
            raise self._missing(key)
        return found

    def optional_section(self, key: str) -> JsonSection | None:
        """A nested object, or None."""
        owner = self._owner(key)
        if owner is None:
            return None
        values = self._get(key, _object, "an object")
        return JsonSection(self.file, values or {}, f"{owner.path}{key}.")

    def wrong(self, key: str, wanted: str) -> CheckpointError:
        """Make the error for a value that is not what is ``wanted`` ("a list of 32 texts")."""
        owner = self._owner(key) or self
        return CheckpointError(
            f"{self.file}: {owner.path}{key} is {_shown(owner.values.get(key))}, not {wanted}.",
            hint="The file is damaged, or made for a newer program: get the model's own.",
        )

    def _missing(self, key: str) -> CheckpointError:
        return CheckpointError(
            f"{self.file} has no {self.path}{key}.",
            hint="The file is incomplete: get the model's own.",
        )

    def _owner(self, key: str) -> JsonSection | None:
        """The section that holds a key."""
        if self.values.get(key) is not None:
            return self
        return None if self.fallback is None else self.fallback._owner(key)

    def _demand(self, key: str, convert: Callable[[Any], T | None], wanted: str) -> T:
        value = self._get(key, convert, wanted)
        if value is None:
            raise self._missing(key)
        return value

    def _get(self, key: str, convert: Callable[[Any], T | None], wanted: str) -> T | None:
        owner = self._owner(key)
        if owner is None:
            return None
        value = convert(owner.values[key])
        if value is None:
            raise self.wrong(key, wanted)
        return value


def read_json(path: Path, limit: int) -> JsonSection:
    """Read a file that holds one JSON object, of at most ``limit`` bytes.

    Raises:
        SourceNotFoundError: there is no such file.
        CorruptCheckpointError: it is too large, no JSON or no object.
        StorageError: it cannot be read.
    """
    values = _parse(_read(path, limit), path.name)
    if not isinstance(values, dict):
        raise _corrupt(path.name, f"it holds {_shown(values)} and no object")
    return JsonSection(path.name, values)


def read_json_list(path: Path, limit: int) -> list[JsonSection]:
    """Read a file that holds a JSON list of objects, of at most ``limit`` bytes.

    Raises:
        SourceNotFoundError: there is no such file.
        CorruptCheckpointError: it is too large, no JSON or no such list.
        StorageError: it cannot be read.
    """
    values = _parse(_read(path, limit), path.name)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise _corrupt(path.name, f"it holds {_shown(values)} and no list of objects")
    return [JsonSection(path.name, value, f"[{index}].") for index, value in enumerate(values)]


def _read(path: Path, limit: int) -> bytes:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _corrupt(path.name, "it is no regular file")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceNotFoundError(
            f"There is no {path.name} in {path.parent}.", hint="Download the whole model."
        ) from None
    except (OSError, ValueError) as error:
        raise StorageError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}.",
            hint="Check the file's permissions.",
        ) from None
    if len(data) > limit:
        raise _corrupt(path.name, f"it has more than {limit} bytes")
    return data


def _parse(data: bytes, name: str) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _corrupt(name, f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        problem = f"{error.msg} in line {error.lineno}, column {error.colno}"
        raise _corrupt(name, f"it is no JSON: {problem}") from None
    except RecursionError:
        raise _corrupt(name, "it is nested too deeply") from None
    except ValueError:
        raise _corrupt(name, "a number in it has thousands of digits") from None


def _corrupt(name: str, problem: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{name} cannot be read: {problem}.", hint="Download or copy the file again."
    )


# --- conversions: None for what is of another kind ------------------------------------------------


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 4096.0, as some tools write it
    return value if type(value) is int and 0 <= value <= MAX_SIZE else None


def _size(value: Any) -> int | None:
    return _count(value) or None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate, which nothing could write again
        return None
    return value


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _one_or_more(value: Any) -> list[int] | None:
    return _list_of(_count)(value if isinstance(value, list) else [value])


def _list_of(convert: Callable[[Any], T | None]) -> Callable[[Any], list[T] | None]:
    def convert_all(value: Any) -> list[T] | None:
        if not isinstance(value, list):
            return None
        converted = [item for item in map(convert, value) if item is not None]
        return converted if len(converted) == len(value) else None

    return convert_all


def _shown(value: Any) -> str:
    """A value as an error may show it: JSON of one line."""
    try:
        text = json.dumps(value)
    except RecursionError:
        return "a deeply nested value"
    return text if len(text) <= 80 else text[:77] + "..."
