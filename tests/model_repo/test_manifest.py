from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrs.errors import CorruptVersionError
from mrs.model_repo.manifest import read_manifest, write_manifest

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.32")
onnx = pytest.importorskip("onnx")

VARIANT = {
    "ep": "CPUExecutionProvider",
    "device": "cpu",
    "variant_directory": "cpu",
    "executor_info": {"ort": {"model_file": "model.onnx"}},
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a graph that adds 1 and 2 to a vector."""
    make = onnx.helper
    vector = onnx.TensorProto.FLOAT
    graph = make.make_graph(
        [make.make_node("Add", ["x", "w"], ["y"])],
        "tiny",
        [make.make_tensor_value_info("x", vector, [2])],
        [make.make_tensor_value_info("y", vector, [2])],
        [make.make_tensor("w", vector, [2], [1.0, 2.0])],
    )
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 21)], ir_version=10)
    folder = tmp_path / "package"
    (folder / "cpu").mkdir(parents=True)
    onnx.save(model, folder / "cpu" / "model.onnx")
    write_manifest(folder, package_name="tiny")
    return folder


def test_onnx_runtime_opens_the_package(package: Path) -> None:
    opened = onnxruntime.ModelPackage.open(str(package))
    info = opened.get_info()
    opened.close()
    assert info["package_name"] == "tiny"
    (component,) = info["components"]
    (variant,) = component["variants"]
    assert (component["name"], variant["name"]) == ("model", "cpu")
    assert Path(variant["variant_directory"]) == package.resolve() / "cpu"


def test_onnx_runtime_makes_a_session_from_the_package(package: Path) -> None:
    context = onnxruntime.ModelPackageContext(str(package))
    options = onnxruntime.ModelPackageOptions(onnxruntime.SessionOptions())
    session = context.select_component("model", options).create_session()
    (result,) = session.run(None, {"x": np.array([10.0, 20.0], np.float32)})
    assert result.tolist() == [11.0, 22.0]


def test_the_manifest_is_what_onnx_runtime_itself_writes(package: Path) -> None:
    ours = json.loads((package / "manifest.json").read_text())
    (package / "manifest.json").write_text('{"schema_version": "1.0", "components": {}}')
    author = onnxruntime.ModelPackage.open(str(package))
    author.set_metadata(name="tiny", version="1")
    author.set_layout("portable")
    author.set_component_inline("model", '{"variants": {}}')
    author.set_variant("model", "cpu", json.dumps(VARIANT))
    author.commit()
    author.close()
    assert json.loads((package / "manifest.json").read_text()) == ours


def test_the_bytes_are_the_same_in_every_folder(package: Path, tmp_path: Path) -> None:
    write_manifest(tmp_path, package_name="tiny")
    first, second = (folder / "manifest.json" for folder in (package, tmp_path))
    assert first.read_bytes() == second.read_bytes()


def test_a_manifest_names_its_graph(package: Path) -> None:
    assert list(read_manifest(package).graphs()) == ["cpu/model.onnx"]


def rewrite(package: Path, variant: dict[str, Any], **top: Any) -> None:
    manifest = {
        "schema_version": "1.0",
        "layout": "portable",
        "package_name": "tiny",
        "components": {"model": {"variants": {"cpu": variant}}},
    }
    (package / "manifest.json").write_text(json.dumps(manifest | top))


@pytest.mark.parametrize("folder", ["..", "/etc", "cpu/../..", ""])
def test_a_variant_outside_the_version_is_refused(package: Path, folder: str) -> None:
    rewrite(package, VARIANT | {"variant_directory": folder})
    with pytest.raises(CorruptVersionError, match="outside the version"):
        read_manifest(package)


@pytest.mark.parametrize("file", ["../../x", "/etc/passwd", "", "a\\b"])
def test_a_graph_outside_the_version_is_refused(package: Path, file: str) -> None:
    rewrite(package, VARIANT | {"executor_info": {"ort": {"model_file": file}}})
    with pytest.raises(CorruptVersionError, match="outside the version"):
        read_manifest(package)


def test_session_options_are_not_taken_from_a_manifest(package: Path) -> None:
    ort = {"model_file": "model.onnx", "session_options": {"session.use_env_allocators": "1"}}
    rewrite(package, VARIANT | {"executor_info": {"ort": ort}})
    with pytest.raises(CorruptVersionError, match="session_options"):
        read_manifest(package)


@pytest.mark.parametrize(
    "top", [{"schema_version": "2.0"}, {"layout": "installed"}, {"components": {}}, {"x": 1}]
)
def test_a_manifest_of_another_kind_is_refused(package: Path, top: dict[str, Any]) -> None:
    rewrite(package, VARIANT, **top)
    with pytest.raises(CorruptVersionError, match="malformed"):
        read_manifest(package)


def test_a_missing_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptVersionError, match=r"no manifest\.json"):
        read_manifest(tmp_path)
