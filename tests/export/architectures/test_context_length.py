import dataclasses

import pytest

from mrs.errors import UnsupportedArchitectureError, UsageError
from mrs.export.architectures.context_length import at_context
from mrs.export.architectures.spec import (
    Activation,
    AttentionSpec,
    DecoderSpec,
    FactorsScaling,
    LayerSpec,
    LongRopeScaling,
    MlpSpec,
    NormKind,
    NormSpec,
    RopeLayout,
    RopeSpec,
)


def model(context: int, learned: int = 0, rope: RopeSpec | None = None) -> DecoderSpec:
    attention = AttentionSpec(4, 2, 128, rope=rope, scale=1.0)
    return DecoderSpec(
        architecture="any",
        hidden_size=64,
        vocab_size=96,
        context_length=context,
        norm=NormSpec(NormKind.RMS, 1e-5),
        layers=(LayerSpec(attention, MlpSpec(96, Activation.SILU)),) * 2,
        tied_embeddings=True,
        learned_positions=learned,
    )


ROPE = RopeSpec(10000.0, 128, RopeLayout.HALVES)


def test_without_a_request_the_checkpoint_decides() -> None:
    assert at_context(model(4096, rope=ROPE), None) == model(4096, rope=ROPE)


@pytest.mark.parametrize("length", [1, 100, 4096, 8192])
def test_a_rotation_is_told_for_any_length(length: int) -> None:
    assert at_context(model(4096, rope=ROPE), length) == model(length, rope=ROPE)


def test_learned_positions_may_be_fewer() -> None:
    assert at_context(model(1024, learned=1024), 512) == model(512, learned=1024)


def test_learned_positions_cannot_be_more() -> None:
    with pytest.raises(UsageError, match="is 1025, but the model learned 1024 positions"):
        at_context(model(1024, learned=1024), 1025)


@pytest.mark.parametrize("length", [0, -1, (1 << 22) + 1])
def test_a_request_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(UsageError, match=f"is {length}; it must be from 1 to 4194304"):
        at_context(model(4096, rope=ROPE), length)


def test_tables_beyond_a_gibibyte_are_refused_with_the_way_out() -> None:
    most = (1 << 30) // (4 * 128)
    assert at_context(model(most, rope=ROPE), None).context_length == most
    with pytest.raises(UnsupportedArchitectureError, match=r"tables of 2097153 .* 1\.1 GB") as at:
        at_context(model(most + 1, rope=ROPE), None)
    assert at.value.hint is not None and "--context-length" in at.value.hint
    assert at_context(model(most + 1, rope=ROPE), 4096).context_length == 4096


def test_tables_of_several_rotations_count_together() -> None:
    one = model(1 << 20, rope=ROPE)
    other = dataclasses.replace(ROPE, base=5e5)
    layers = (
        *one.layers,
        *model(1, rope=other).layers,
        *model(1, rope=dataclasses.replace(ROPE, base=1e6)).layers,
    )
    assert at_context(one, None) == one
    with pytest.raises(UnsupportedArchitectureError, match=r"1\.6 GB"):
        at_context(dataclasses.replace(one, layers=layers), None)


def test_more_positions_than_any_artifact_has_are_refused_with_the_way_out() -> None:
    with pytest.raises(UnsupportedArchitectureError, match="room for 10485760 positions") as at:
        at_context(model(10 << 20), None)
    assert at.value.hint is not None and "--context-length" in at.value.hint


def test_the_context_decides_which_factors_are_used() -> None:
    short, long = FactorsScaling(values=(1.0, 2.0)), FactorsScaling(values=(3.0, 4.0))
    scaling = LongRopeScaling(short, long, original_context=4096)
    assert scaling.at(4096) is short
    assert scaling.at(4097) is long
