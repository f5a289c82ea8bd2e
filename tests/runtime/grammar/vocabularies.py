"""A small vocabulary whose tokens can spell everything, and draws from it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from mrs.runtime.generation import Grammar, SamplingParams
from mrs.runtime.grammar.compiler import GrammarCompiler
from mrs.runtime.grammar.constraint import GrammarConstraint
from mrs.runtime.grammar.token_mask import members
from mrs.runtime.grammar.vocabulary import GrammarVocabulary
from mrs.runtime.tokenizer import Tokenizer

_MERGES = [
    ('"', "}"),
    ("a", "b"),
    ("t", "r"),
    ("u", "e"),
    ("tr", "ue"),
    ("n", "a"),
    ("m", "e"),
    ("na", "me"),
    ('"', ":"),
    ("Ċ", "Ġ"),
    ("]", "]"),
    ("{", '"'),
    ("Ã", "©"),
]
EOS, OTHER_EOS = "<|end|>", "<|turn|>"
PADDING = 5


def small_tokenizer() -> Tokenizer:
    """All bytes, some merges, and two special tokens at the end."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = alphabet + ["".join(pair) for pair in _MERGES]
    vocab = {token: index for index, token in enumerate(tokens)}
    backend = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=_MERGES))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(EOS, special=True), AddedToken(OTHER_EOS, special=True)])
    return Tokenizer(backend)


TOKENIZER = small_tokenizer()
VOCAB_SIZE = TOKENIZER.vocab_size + PADDING
"""Width of the logits: as with many models, more than there are tokens."""
END, OTHER_END = TOKENIZER.special_tokens[EOS], TOKENIZER.special_tokens[OTHER_EOS]


def small_compiler() -> GrammarCompiler:
    return GrammarCompiler(GrammarVocabulary(TOKENIZER, VOCAB_SIZE, (END, OTHER_END)))


def constrained(
    compiler: GrammarCompiler, grammar: Grammar, **sampling: object
) -> GrammarConstraint:
    params = SamplingParams(grammar=grammar, **sampling)  # type: ignore[arg-type]
    constraint = compiler.constraint(params)
    assert constraint is not None
    return constraint


def possible(constraint: GrammarConstraint, drawn: int = 0) -> set[int]:
    """The tokens that may be drawn next."""
    logits = np.zeros(VOCAB_SIZE, dtype=np.float32)
    constraint.restrict(logits, drawn)
    return set(np.flatnonzero(np.isfinite(logits)).tolist())


def texts(constraint: GrammarConstraint, drawn: int = 0) -> set[bytes]:
    """What they are; ends of sequence as none."""
    return {TOKENIZER.token_bytes(t) if t < END else b"" for t in possible(constraint, drawn)}


def random_answer(constraint: GrammarConstraint, limit: int, seed: int) -> tuple[bytes, str]:
    """What a model of random logits says within ``limit`` tokens, and why it ends."""
    random = np.random.default_rng(seed)
    said = b""
    for drawn in range(limit):
        token = _draw(constraint, random, drawn, limit)
        if token >= END:
            return said, "stop"
        said += TOKENIZER.token_bytes(token)
        if constraint.complete:
            return said, "stop"
    return said, "length"


def _draw(
    constraint: GrammarConstraint, random: np.random.Generator, drawn: int, limit: int
) -> int:
    logits: NDArray[np.float32] = random.gumbel(size=VOCAB_SIZE).astype(np.float32)
    constraint.restrict(logits, drawn)
    token = constraint.settle(int(logits.argmax()), limit - drawn)
    constraint.accept(token)
    return token


def accepts(constraint: GrammarConstraint, text: str) -> bool:
    """Whether the grammar takes this text as a whole; the constraint stays where it is."""
    ids = TOKENIZER.encode(text, parse_special=False)
    return constraint.matcher.validate([*ids, END]) == len(ids) + 1


def walk(constraint: GrammarConstraint, random: np.random.Generator, most: int) -> Iterator[int]:
    """Tokens that the masks allow, drawn at random and not steered, as far as there are any."""
    for _ in range(most):
        allowed = [t for t in members(constraint.matcher.mask()).tolist() if t < END]
        if not allowed:
            return
        yield int(random.choice(allowed))


def is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
