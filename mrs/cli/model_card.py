"""Versions as tables for people and as values for JSON.

Imports Rich and Pydantic: commands import this module when they need it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrs.cli.console import format_size, plural, printable
from mrs.model_repo.lock import (
    CacheParityRecord,
    EmbeddingFacts,
    EmbeddingParityRecord,
    ModelLock,
    ParityRecord,
    RerankerFacts,
    RerankerParityRecord,
)
from mrs.model_repo.lock_file import artifact_digest
from mrs.model_repo.measurements import read_measurements
from mrs.model_repo.version import BrokenVersion, ModelVersion


def version_summary(version: ModelVersion) -> dict[str, Any]:
    """A version in a few JSON values."""
    lock = version.lock
    return {
        "reference": version.reference,
        "name": version.name,
        "version": version.number,
        "path": str(version.path),
        "size": version.size,
        "kind": lock.model.kind,
        "architecture": lock.model.architecture,
        "quantization": lock.inputs.options.get("quant"),
        "context_length": lock.model.context_length,
        "chat_template": lock.model.chat_template,
        "source": {
            "kind": lock.inputs.source.kind,
            "identifier": lock.inputs.source.identifier,
        },
        "input_digest": lock.input_digest,
    }


def version_proof(version: ModelVersion) -> dict[str, Any]:
    """What identifies an artifact and what was measured of it, in JSON values."""
    lock, speed = version.lock, read_measurements(version)
    return {
        "artifact_digest": artifact_digest(lock),
        "parity": None if lock.parity is None else lock.parity.model_dump(mode="json"),
        "int8_cache": None if lock.int8_cache is None else lock.int8_cache.model_dump(mode="json"),
        "speed": None if speed is None else speed.model_dump(mode="json"),
    }


def version_details(version: ModelVersion) -> dict[str, Any]:
    """A version with its whole lock, as JSON values."""
    lock = version.lock.model_dump(mode="json")
    return version_summary(version) | version_proof(version) | {"lock": lock}


def broken_summary(broken: BrokenVersion) -> dict[str, Any]:
    """A version that cannot be read, as JSON values."""
    return {
        "reference": broken.reference,
        "name": broken.name,
        "version": broken.number,
        "path": str(broken.path),
        "error": broken.error.as_dict(),
    }


def version_table(entries: Sequence[ModelVersion | BrokenVersion]) -> Table:
    """One row for each version."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("NAME", "VERSION", "ARCHITECTURE", "QUANT", "SIZE", "CONTEXT", "SOURCE"):
        table.add_column(
            heading,
            justify="right" if heading in {"VERSION", "SIZE", "CONTEXT"} else "left",
            no_wrap=heading != "SOURCE",
            overflow="fold",
        )
    for entry in entries:
        table.add_row(*_broken_row(entry) if isinstance(entry, BrokenVersion) else _row(entry))
    return table


def _row(version: ModelVersion) -> list[Text]:
    lock = version.lock
    cells = [
        version.name,
        str(version.number),
        lock.model.architecture,
        lock.inputs.options.get("quant", "-"),
        format_size(version.size),
        str(lock.model.context_length),
        lock.inputs.source.identifier,
    ]
    return [Text(printable(cell)) for cell in cells]


def _broken_row(broken: BrokenVersion) -> list[Text]:
    cells = [broken.name, str(broken.number), "broken", "-", "-", "-", "see below"]
    return [Text(cell, style="red") for cell in cells]


def print_card(console: Console, version: ModelVersion) -> None:
    """All that is known of a version."""
    lock = version.lock
    console.print(Text(printable(version.reference), style="bold"))
    sections: list[tuple[str, RenderableType]] = [
        ("Model", _pairs(_model_facts(version))),
        ("Source", _pairs(_source_facts(lock))),
        ("Options", _pairs(sorted(lock.inputs.options.items()))),
        ("Made with", _pairs(sorted(lock.inputs.tools.items()))),
        ("Weights", _weights(lock)),
        ("Quality", _pairs(quality_facts(version))),
        ("Files", _files(lock)),
    ]
    for title, body in sections:
        heading = Text(title, style="bold cyan")
        console.print(Group(Text(), heading, Padding(body, (0, 0, 0, 2), expand=False)))


def _model_facts(version: ModelVersion) -> Iterable[tuple[str, str]]:
    model = version.lock.model
    ends = ", ".join(map(str, model.eos_token_ids)) or "none"
    begin = "none" if model.bos_token_id is None else str(model.bos_token_id)
    yield "architecture", model.architecture
    yield "context", f"{model.context_length} tokens"
    yield "vocabulary", f"{model.vocab_size} tokens"
    yield "layers", f"{model.num_layers} ({model.num_kv_heads} KV heads of {model.head_dim})"
    if any(model.kv_windows):
        yield "windows", _windows(model.kv_windows)
    if model.embedding is not None:
        yield from _embedding_facts(model.embedding)
    if model.reranker is not None:
        yield from _reranker_facts(model.reranker)
    yield "begin token", f"{begin}{' (added to prompts)' if model.add_bos else ''}"
    if model.kind == "decoder":
        yield "end tokens", ends
        yield "chat template", model.chat_template or "none"
    yield "size", format_size(version.size)
    yield "path", str(version.path)
    yield "input digest", version.lock.input_digest
    yield "artifact digest", artifact_digest(version.lock)


def _windows(windows: Sequence[int | None]) -> str:
    sizes = Counter(window for window in windows if window is not None)
    return ", ".join(
        f"{plural(count, 'layer')} of {size} tokens" for size, count in sorted(sizes.items())
    )


def _embedding_facts(facts: EmbeddingFacts) -> Iterable[tuple[str, str]]:
    length = ", of length 1" if facts.normalized else ""
    yield "makes", f"vectors of {facts.size} dimensions{length}"
    if facts.dimensions:
        yield "can be cut to", ", ".join(map(str, facts.dimensions))
    yield "pooling", facts.pooling
    yield "longest text", f"{facts.max_length} tokens"
    for name, prompt in sorted(facts.prompts.items()):
        default = " (by default)" if name == facts.default_prompt else ""
        yield f"prompt {name}{default}", prompt or "none"


def _reranker_facts(facts: RerankerFacts) -> Iterable[tuple[str, str]]:
    score = "the sigmoid of its logit" if facts.activation == "sigmoid" else "its logit"
    yield "makes", f"a score of two texts: {score}"
    yield "longest pair", f"{facts.max_length} tokens"


def quality_facts(version: ModelVersion) -> Iterable[tuple[str, str]]:
    """What was measured of a version, as pairs of a name and a value."""
    parity, speed = version.lock.parity, read_measurements(version)
    if isinstance(parity, ParityRecord):
        yield "mean KL", f"{parity.mean_kl:g} (largest {parity.max_kl:g})"
        yield "top-1", f"{parity.top1:g} %"
        yield "perplexity", f"{parity.perplexity:g} (float32 {parity.reference_perplexity:g})"
    elif isinstance(parity, EmbeddingParityRecord):
        smallest = f"smallest of {plural(parity.texts, 'text')} {parity.min_cosine:g}"
        yield "cosine similarity", f"{parity.mean_cosine:g} ({smallest})"
    elif isinstance(parity, RerankerParityRecord):
        largest = f"largest of {plural(parity.pairs, 'pair')} {parity.max_difference:g}"
        yield "difference of logits", f"{parity.mean_difference:g} ({largest})"
        yield "ranked alike", f"{parity.agreement:g} %"
    else:
        reason = "an older mrs made it" if parity is None else parity.not_measured
        yield "parity", f"not measured: {reason}"
    yield from _cache_facts(version)
    if speed is not None:
        yield "decode", f"{speed.decode_tokens_per_second:g} tok/s"
        yield "prefill", f"{speed.prefill_tokens_per_second:g} tok/s"
        yield "measured on", f"{speed.processor}, {plural(speed.threads, 'thread')}"


def _cache_facts(version: ModelVersion) -> Iterable[tuple[str, str]]:
    measured = version.lock.int8_cache
    if isinstance(measured, CacheParityRecord):
        yield "mean KL with int8 KV cache", f"{measured.float32_kl:g}"
        kl = f"mean KL {measured.mean_kl:g} (largest {measured.max_kl:g})"
        yield "int8 KV cache against fp32", f"{kl}, top-1 {measured.top1:g} %"
    elif measured is not None and not version.has_int8_cache:
        yield "int8 KV cache", f"none: {measured.not_measured}"


def quality_sentence(version: ModelVersion) -> str:
    """What was measured of a version, on one line."""
    return ", ".join(f"{name} {value}" for name, value in quality_facts(version))


def _source_facts(lock: ModelLock) -> Iterable[tuple[str, str]]:
    source = lock.inputs.source
    if source.kind != "file":
        yield source.kind, source.identifier
    for file in source.files:
        yield "file", f"{file.path} ({format_size(file.size)})"
        yield "sha256", file.sha256


def _weights(lock: ModelLock) -> Table:
    kinds = Counter(
        (tensor.source_type, tensor.stored_as, tensor.exact)
        for tensor in lock.quantization.values()
    )
    table = _plain_table()
    for (source, stored, exact), count in sorted(kinds.items()):
        fidelity = "exact" if exact else "rounded"
        _add_row(table, plural(count, "tensor"), f"{source} as {stored}", fidelity)
    return table


def _files(lock: ModelLock) -> Table:
    table = _plain_table()
    for file in lock.files:
        _add_row(table, file.path, format_size(file.size), file.sha256[:16])
    return table


def _pairs(pairs: Iterable[tuple[str, str]]) -> Table:
    table = _plain_table()
    for key, value in pairs:
        table.add_row(Text(printable(key), style="dim"), Text(printable(value)))
    return table


def _plain_table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _add_row(table: Table, *cells: str) -> None:
    table.add_row(*(Text(printable(cell)) for cell in cells))
