"""Unlike rows of one step: each has positions, windows and rotations of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mrs.export.architectures.huggingface import open_huggingface
from mrs.runtime.generation import SamplingParams
from mrs.runtime.sequence import Sequence
from mrs.runtime.step import Row, Step
from tests.export.test_parity_families import TOLERANCE, build
from tests.reference.families import CASES
from tests.reference.tiny_model import Reference

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", ["gpt2", "cohere2", "phi4", "stablelm-parallel"])
def test_a_step_of_unlike_rows_gives_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    decoder = build(open_huggingface(case.write(tmp_path)), tmp_path, case.context, slots=2).decoder
    expected = Reference.load(case).logits
    prompt = tuple(case.prompt())
    rows = [Sequence(prompt, SamplingParams(), index=0, max_length=1 << 20) for _ in range(2)]
    for (first, new), (other_first, other_new) in (
        ((0, 20), (0, 3)),
        ((20, 1), (3, 30)),
        ((21, 4), (33, 1)),
    ):
        step = (
            Row(rows[0], first, new, draws=True),
            Row(rows[1], other_first, other_new, draws=True),
        )
        found = decoder.run(Step(0, step))
        wanted = expected[[first + new - 1, other_first + other_new - 1]]
        assert np.abs(found - wanted).max() <= TOLERANCE * max(1.0, float(np.ptp(expected)))
