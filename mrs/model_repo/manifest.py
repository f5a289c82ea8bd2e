"""``manifest.json``: a version folder as an ONNX Runtime model package.

ONNX Runtime 1.32 opens such a folder with ``onnxruntime.ModelPackage.open`` and makes a session
from it with ``ModelPackageContext(...).select_component("model", ...)``. The schema is the one that
its authoring API writes: it refuses unknown fields, ``..`` and absolute paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrs.canonical_json import canonical_json
from mrs.errors import CorruptVersionError
from mrs.model_repo.contained_path import is_contained
from mrs.model_repo.lock_file import read_metadata
from mrs.model_repo.storage import storage_errors

MANIFEST_FILE_NAME = "manifest.json"
COMPONENT = "model"

# Counts changes of the artifact's layout. A version's own number must not be in its files: the
# same input gives the same bytes in any repository.
PACKAGE_VERSION = "1"

_LARGEST_MANIFEST = 1 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class OrtExecutor(_Strict):
    """How ONNX Runtime loads a variant: its graph, relative to the variant's folder.

    Session and provider options, which ONNX Runtime would apply unasked, are not accepted.
    """

    model_file: str


class ExecutorInfo(_Strict):
    """Executors by name; ``ort`` is the only one."""

    ort: OrtExecutor


class Variant(_Strict):
    """The model built for one execution provider."""

    ep: str
    device: str
    variant_directory: str
    executor_info: ExecutorInfo

    @property
    def graph(self) -> str:
        """The graph's path relative to the version."""
        return f"{self.variant_directory}/{self.executor_info.ort.model_file}"


class Component(_Strict):
    """One model of the package in its variants."""

    variants: dict[str, Variant] = Field(min_length=1)


class PackageManifest(_Strict):
    """The whole of ``manifest.json``."""

    schema_version: Literal["1.0"] = "1.0"
    layout: Literal["portable"] = "portable"
    package_name: str
    package_version: str = PACKAGE_VERSION
    components: dict[str, Component] = Field(min_length=1)

    def graphs(self) -> Iterator[str]:
        """The paths of all graphs, relative to the version."""
        for component in self.components.values():
            for variant in component.variants.values():
                yield variant.graph


def write_manifest(folder: Path, *, package_name: str) -> None:
    """Write ``folder/manifest.json`` for a model whose graph is ``cpu/model.onnx``.

    Raises:
        StorageError: it cannot be written.
    """
    cpu = Variant(
        ep="CPUExecutionProvider",
        device="cpu",
        variant_directory="cpu",
        executor_info=ExecutorInfo(ort=OrtExecutor(model_file="model.onnx")),
    )
    manifest = PackageManifest(
        package_name=package_name, components={COMPONENT: Component(variants={"cpu": cpu})}
    )
    path = folder / MANIFEST_FILE_NAME
    with storage_errors(path):
        path.write_bytes(canonical_json(manifest.model_dump(mode="json")))


def read_manifest(folder: Path) -> PackageManifest:
    """Read and check ``folder/manifest.json``.

    Raises:
        CorruptVersionError: it is missing, malformed, or names a graph outside the folder.
        StorageError: it cannot be read.
    """
    path = folder / MANIFEST_FILE_NAME
    text = read_metadata(path, _LARGEST_MANIFEST)
    try:
        manifest = PackageManifest.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "its top"
        raise CorruptVersionError(f"{path} is malformed at {where}: {first['msg']}.") from error
    for graph in manifest.graphs():
        if not is_contained(graph):
            raise CorruptVersionError(f"{path} names the graph {graph!r}, outside the version.")
    return manifest
