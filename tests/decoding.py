"""Run a graph directly, without scheduler or engine: for comparing logits."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mrs.model_repo.lock import ModelFacts
from mrs.runtime.decoder import Decoder
from mrs.runtime.generation import SamplingParams
from mrs.runtime.kv_cache import KVCache, KVCacheShape
from mrs.runtime.sequence import Sequence
from mrs.runtime.session_pool import SessionKey, open_session
from mrs.runtime.step import Row, Step


class DirectDecoder:
    """A decoder with one slot; gives the logits of every position that it is shown."""

    def __init__(self, graph: Path, facts: ModelFacts, slots: int = 1, capacity: int = 512) -> None:
        shape = KVCacheShape(facts.num_layers, slots, facts.num_kv_heads, capacity, facts.head_dim)
        self.decoder = Decoder(
            open_session(SessionKey(graph, threads=2)), KVCache(shape), facts.vocab_size
        )

    def prefill_last(self, tokens: Tokens[int]) -> NDArray[np.float32]:
        """Logits after all tokens, computed in one step."""
        sequence = _sequence(tokens)
        row = Row(sequence, past=0, new=len(tokens), draws=True)
        return self.decoder.run(Step(0, (row,)))[0].copy()

    def one_by_one(self, tokens: Tokens[int]) -> NDArray[np.float32]:
        """Logits after each token, computed token by token."""
        sequence = _sequence(tokens)
        logits = [
            self.decoder.run(Step(0, (Row(sequence, position, 1, draws=True),)))[0].copy()
            for position in range(len(tokens))
        ]
        return np.stack(logits)

    def greedy(self, prompt: Tokens[int], count: int) -> list[int]:
        """The greedy continuation."""
        sequence = _sequence(prompt)
        token = int(self.prefill_last(prompt).argmax())
        for _ in range(count - 1):
            sequence.output_ids.append(token)
            row = Row(sequence, sequence.length - 1, 1, draws=True)
            token = int(self.decoder.run(Step(0, (row,)))[0].argmax())
        return [*sequence.output_ids, token]


def _sequence(tokens: Tokens[int]) -> Sequence:
    return Sequence(tuple(int(t) for t in tokens), SamplingParams(), index=0, max_length=1 << 20)
