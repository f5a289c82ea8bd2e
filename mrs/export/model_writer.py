"""The graph and its weights, written into a folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mrs.errors import UsageError
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.plan import Plan
from mrs.export.progress import Progress
from mrs.export.quantization.requested import QuantizationMap
from mrs.export.weight_options import WeightOptions
from mrs.model_repo.lock import TensorRecord
from mrs.model_repo.staging import StagedVersion

if TYPE_CHECKING:
    import onnx_ir as ir

    from mrs.export.graph.matrix_formats import MatrixFormats
    from mrs.export.graph.weights import Weights
    from mrs.export.quantization.importance import TensorImportance

# Near enough to float32 to tell what activations are like, and a fraction of its size.
_CALIBRATED = QuantizationMap("auto")


def write_model(
    plan: Plan,
    formats: MatrixFormats,
    folder: Path,
    progress: Progress,
    label: str,
    *,
    int8_cache: bool = False,
) -> dict[str, TensorRecord]:
    """Write ``model.onnx`` and ``model.onnx.data`` into a folder that does not exist yet.

    Args:
        plan: of the model.
        formats: how matrices are stored.
        folder: where.
        progress: of the export.
        label: of this part of it.
        int8_cache: of a model that generates text, write ``model.int8kv.onnx`` too, over the same
            weights; its scales are measured later.

    Returns:
        how each tensor is stored.
    """
    import onnx_ir as ir

    weights, model = _build(plan, formats, folder, progress, label)
    ir.save(model, folder / "model.onnx")
    if int8_cache and isinstance(plan.spec, DecoderSpec):
        from mrs.export.graph.int8_cache import use_int8_cache

        use_int8_cache(model)
        ir.save(model, folder / "model.int8kv.onnx")
    return weights.records


def write_float32(plan: Plan, folder: Path, progress: Progress, label: str) -> None:
    """Write the model with every weight in float32."""
    from mrs.export.graph.matrix_formats import MatrixFormats

    write_model(plan, MatrixFormats(QuantizationMap("fp32")), folder, progress, label)


def make_formats(
    options: WeightOptions,
    plan: Plan,
    tokenizer_json: Path,
    scratch: AbstractContextManager[StagedVersion],
    progress: Progress,
) -> MatrixFormats:
    """How each matrix is stored, with the importance that the options give or have measured.

    Args:
        options: of the export.
        plan: of the model.
        tokenizer_json: the tokenizer of the artifact.
        scratch: a context that gives a stage, whose folder is deleted in the end.
        progress: of the export.

    Raises:
        UsageError: a pattern matches nothing, or importance is of another model.
        CorruptCheckpointError: the importance matrix is none.
    """
    from mrs.export.graph.matrix_formats import MatrixFormats

    options.check_patterns(plan.checkpoint)
    importance: Mapping[str, TensorImportance] = {}
    if options.imatrix is not None:
        from mrs.export.quantization.imatrix import fit_importance, read_imatrix

        squares = read_imatrix(options.imatrix)
        importance = fit_importance(squares, plan.checkpoint.tensors, options.imatrix.name)
    elif options.calibration_file is not None:
        importance = _calibrate(options.calibration_file, plan, tokenizer_json, scratch, progress)
    whole_texts = not isinstance(plan.spec, DecoderSpec)
    return MatrixFormats(options.requested, importance, whole_texts)


def _calibrate(
    text_file: Path,
    plan: Plan,
    tokenizer_json: Path,
    scratch: AbstractContextManager[StagedVersion],
    progress: Progress,
) -> dict[str, TensorImportance]:
    import onnx_ir as ir

    from mrs.export.calibration.calibrate import MOST_TOKENS, calibrate, read_calibration_text
    from mrs.export.calibration.observed_formats import ObservedFormats

    if not isinstance(plan.spec, DecoderSpec):
        raise UsageError(
            "--calibration-file needs a model that generates text; this one does not.",
            hint="Leave it out.",
            param="calibration_file",
        )
    text = read_calibration_text(text_file)
    formats = ObservedFormats(_CALIBRATED)
    with scratch as stage:
        folder = stage.path / "calibration"
        _, model = _build(plan, formats, folder, progress, "Write model to calibrate")
        outputs = formats.observations.add_outputs(model)
        ir.save(model, folder / "model.onnx")
        with progress.phase("Calibrate", total=MOST_TOKENS) as advance:
            return calibrate(
                folder / "model.onnx",
                outputs,
                tokenizer_json,
                text,
                context_length=plan.spec.context_length,
                begin_token=plan.assets.bos_token_id if plan.assets.add_bos else None,
                advance=advance,
            )
    raise AssertionError("unreachable")


def _build(
    plan: Plan, formats: MatrixFormats, folder: Path, progress: Progress, label: str
) -> tuple[Weights, ir.Model]:
    """The graph in memory, its weights in ``model.onnx.data``."""
    from mrs.export.graph.builder import GraphBuilder
    from mrs.export.graph.decoder import build_decoder
    from mrs.export.graph.embedder import build_embedder
    from mrs.export.graph.weight_file import WeightFile
    from mrs.export.graph.weights import Weights

    folder.mkdir()
    with (
        progress.phase(label, total=plan.spec.num_layers) as advance,
        WeightFile(folder / "model.onnx.data") as weight_file,
    ):
        weights = Weights(plan.checkpoint, formats, GraphBuilder(weight_file))
        if isinstance(plan.spec, DecoderSpec):
            return weights, build_decoder(plan.spec, weights, on_layer=lambda: advance(1))
        return weights, build_embedder(plan.spec, weights, on_layer=lambda: advance(1))
    raise AssertionError("unreachable")
