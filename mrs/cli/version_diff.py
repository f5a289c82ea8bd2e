"""Two versions side by side: what differs between them, as data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mrs.export.locked import Difference, input_differences
from mrs.model_repo.lock import (
    CacheParityRecord,
    EmbeddingParityRecord,
    ModelLock,
    ParityRecord,
    RerankerParityRecord,
)
from mrs.model_repo.lock_file import artifact_digest
from mrs.model_repo.measurements import Measurements
from mrs.model_repo.version import ModelVersion

_ASSETS = {
    "tokenizer.json": "tokenizer",
    "chat_template.jinja": "chat template",
    "generation_config.json": "generation defaults",
}
# Graph and weights: what differs in them is shown by how tensors are stored.
_GRAPHS = "cpu/"
_MEASURED = (ParityRecord, EmbeddingParityRecord, RerankerParityRecord)
_OF_LOGITS = (
    ("mean KL", "nats", "mean_kl", True),
    ("largest KL", "nats", "max_kl", True),
    ("top-1", "%", "top1", False),
    ("perplexity", "", "perplexity", True),
    ("perplexity of float32", "", "reference_perplexity", True),
)
_OF_VECTORS = (
    ("mean cosine", "", "mean_cosine", False),
    ("smallest cosine", "", "min_cosine", False),
)
_OF_SCORES = (
    ("mean difference", "", "mean_difference", True),
    ("largest difference", "", "max_difference", True),
    ("ranked alike", "%", "agreement", False),
)


@dataclass(frozen=True)
class Figure:
    """A number of both versions.

    Attributes:
        name: what it is.
        unit: ``bytes``, ``nats``, ``%``, ``tok/s`` or nothing.
        values: of either version; None where it was not measured.
        smaller_is_better: whether to wish for a smaller number.
    """

    name: str
    unit: str
    values: tuple[float | None, float | None]
    smaller_is_better: bool

    @property
    def ratio(self) -> float | None:
        """The second by the first; None where that says nothing."""
        first, second = self.values
        return None if second is None or not first else second / first

    @property
    def better(self) -> bool | None:
        """Whether the second is better than the first; None if they are equal or unknown."""
        first, second = self.values
        if first is None or second is None or first == second:
            return None
        return (second < first) == self.smaller_is_better


def figures(
    versions: tuple[ModelVersion, ModelVersion],
    speeds: tuple[Measurements | None, Measurements | None],
) -> Iterator[Figure]:
    """Size, parity and speed of two versions."""
    first, second = versions
    yield Figure("size", "bytes", (first.size, second.size), True)
    parities = [
        version.lock.parity if isinstance(version.lock.parity, _MEASURED) else None
        for version in versions
    ]
    for name, unit, field, smaller in _measured_of(parities):
        yield Figure(name, unit, _fields(parities, field), smaller)
    caches = [
        version.lock.int8_cache if isinstance(version.lock.int8_cache, CacheParityRecord) else None
        for version in versions
    ]
    yield Figure("mean KL with int8 KV cache", "nats", _fields(caches, "float32_kl"), True)
    for name, field in (
        ("decode", "decode_tokens_per_second"),
        ("prefill", "prefill_tokens_per_second"),
    ):
        yield Figure(name, "tok/s", _fields(speeds, field), False)


def _measured_of(parities: Iterable[object]) -> Sequence[tuple[str, str, str, bool]]:
    for parity in parities:
        if isinstance(parity, EmbeddingParityRecord):
            return _OF_VECTORS
        if isinstance(parity, RerankerParityRecord):
            return _OF_SCORES
    return _OF_LOGITS


def same_text(first: ModelVersion, second: ModelVersion) -> bool:
    """Whether the parity of two versions was measured on one text; true if it was not measured."""
    texts = {
        version.lock.parity.text_sha256
        for version in (first, second)
        if isinstance(version.lock.parity, _MEASURED)
    }
    return len(texts) < 2


def same_artifact(first: ModelVersion, second: ModelVersion) -> bool:
    """Whether two versions are the same but for what was measured."""
    return artifact_digest(first.lock) == artifact_digest(second.lock)


def lock_differences(first: ModelLock, second: ModelLock) -> list[Difference]:
    """What differs in source, options, tools, facts of the model, and its text side."""
    return [
        *input_differences(first.inputs, second.inputs),
        *_fact_differences(first, second),
        *_asset_differences(first, second),
    ]


def weight_differences(first: ModelLock, second: ModelLock) -> list[Difference]:
    """Groups of tensors that are stored otherwise; a ``*`` stands for the number of a layer."""
    groups = [_groups(lock) for lock in (first, second)]
    return [
        Difference(name, _formats(groups[0].get(name)), _formats(groups[1].get(name)))
        for name in sorted(groups[0].keys() | groups[1].keys())
        if groups[0].get(name) != groups[1].get(name)
    ]


def _fields(records: Any, field: str) -> tuple[float | None, float | None]:
    first, second = (None if record is None else getattr(record, field, None) for record in records)
    return first, second


def _fact_differences(first: ModelLock, second: ModelLock) -> Iterator[Difference]:
    facts = [lock.model.model_dump(mode="json") for lock in (first, second)]
    for name in sorted(facts[0].keys() | facts[1].keys()):
        values = [str(fact[name]) if name in fact else None for fact in facts]
        if values[0] != values[1]:
            yield Difference(f"model {name}", *values)


def _asset_differences(first: ModelLock, second: ModelLock) -> Iterator[Difference]:
    digests = [{file.path: file.sha256 for file in lock.files} for lock in (first, second)]
    for path in sorted(digests[0].keys() | digests[1].keys()):
        values = [digest.get(path) for digest in digests]
        if values[0] != values[1] and not path.startswith(_GRAPHS):
            yield Difference(_ASSETS.get(path, f"file {path}"), *values)


def _groups(lock: ModelLock) -> dict[str, Counter[str]]:
    groups: dict[str, Counter[str]] = {}
    for name, record in lock.quantization.items():
        group = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
        fidelity = "exact" if record.exact else "rounded"
        stored = f"{record.source_type} as {record.stored_as}, {fidelity}"
        groups.setdefault(group, Counter())[stored] += 1
    return groups


def _formats(counts: Counter[str] | None) -> str | None:
    if counts is None:
        return None
    return "; ".join(f"{count} × {stored}" for stored, count in sorted(counts.items()))
