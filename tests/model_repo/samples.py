"""Small versions for tests: real files and a true lock, no model."""

from __future__ import annotations

from pathlib import Path

from mrs.model_repo.digests import digest_folder
from mrs.model_repo.lock import (
    ExportInputs,
    FileDigest,
    ModelFacts,
    ModelLock,
    SourceRecord,
    TensorRecord,
)
from mrs.model_repo.lock_file import input_digest
from mrs.model_repo.manifest import write_manifest
from mrs.model_repo.repository import ModelRepository
from mrs.model_repo.version import ModelVersion


def write_files(folder: Path, content: bytes = b"graph") -> None:
    """The files of a version, but its lock."""
    (folder / "cpu").mkdir(parents=True)
    (folder / "cpu" / "model.onnx").write_bytes(content)
    (folder / "cpu" / "model.onnx.data").write_bytes(content * 100)
    (folder / "tokenizer.json").write_text("{}")
    write_manifest(folder, package_name="tiny")


def make_inputs(quant: str = "q8") -> ExportInputs:
    source = FileDigest(path="tiny.gguf", size=12, sha256="ab" * 32)
    return ExportInputs(
        source=SourceRecord(kind="file", identifier="tiny.gguf", files=(source,)),
        options={"quant": quant},
        tools={"mrs": "0.1.0"},
    )


def make_lock(folder: Path, inputs: ExportInputs | None = None) -> ModelLock:
    """The lock of what is in ``folder``."""
    inputs = inputs or make_inputs()
    return ModelLock(
        input_digest=input_digest(inputs),
        inputs=inputs,
        model=ModelFacts(
            architecture="llama",
            context_length=2048,
            vocab_size=256,
            num_layers=2,
            num_kv_heads=1,
            head_dim=8,
            bos_token_id=1,
            eos_token_ids=(2,),
            add_bos=True,
        ),
        quantization={
            "token_embd.weight": TensorRecord(
                source_type="Q8_0", stored_as="int8-block32", exact=True
            ),
            "output_norm.weight": TensorRecord(source_type="F32", stored_as="float32", exact=True),
        },
        files=digest_folder(folder),
    )


def publish(
    repository: ModelRepository,
    name: str = "tiny",
    *,
    quant: str = "q8",
    content: bytes = b"graph",
    reuse: bool = False,
) -> ModelVersion:
    """Stage and publish a version."""
    with repository.stage(name) as staged:
        write_files(staged.path, content)
        lock = make_lock(staged.path, make_inputs(quant))
        return staged.publish(lock, reuse_same_input=reuse)


def listing(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())
