import pytest

from mrs.errors import UnsupportedArchitectureError
from mrs.export.architectures.llama import LLAMA
from mrs.export.architectures.registry import (
    ARCHITECTURES,
    ENCODER_ARCHITECTURES,
    decoder_spec,
    family_of,
)
from tests.export.gguf_files import llama_metadata, llama_weights
from tests.export.memory_checkpoint import MemoryCheckpoint


def test_the_architecture_chooses_the_family() -> None:
    checkpoint = MemoryCheckpoint(llama_weights(), llama_metadata())  # type: ignore[arg-type]
    assert family_of(checkpoint) is LLAMA


@pytest.mark.parametrize("name", ["mamba", "", "Llama", "llama "])
def test_an_unknown_architecture_is_named_beside_the_known_ones(name: str) -> None:
    with pytest.raises(UnsupportedArchitectureError) as caught:
        decoder_spec(MemoryCheckpoint(architecture=name))
    said, known = caught.value.message.removesuffix(".").split("; supported: ")
    assert said == f"The architecture {name!r} is not supported"
    names = known.split(", ")
    assert names == sorted(names)
    assert set(names) >= {*ARCHITECTURES, *ENCODER_ARCHITECTURES}


def test_a_hostile_name_is_shown_in_part() -> None:
    with pytest.raises(UnsupportedArchitectureError) as caught:
        decoder_spec(MemoryCheckpoint(architecture="x" * 1_000_000))
    assert caught.value.message.count("x") < 100
