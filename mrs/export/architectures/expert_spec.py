"""What a mixture of experts is made of, as pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class RouterKind(Enum):
    """How the experts of a token and their shares are found.

    ``SOFTMAX``: probabilities over all experts, of which the largest are taken.
    ``SIGMOID``: a score for each expert by itself, with a bias that counts for the choice alone
    (DeepSeek-V3).
    ``SPARSE_MIXER``: one expert after the other, the share of each being its probability among
    those that are nearly as likely (Phi-3.5-MoE, arXiv:2409.12136).
    """

    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    SPARSE_MIXER = "sparse_mixer"


@dataclass(frozen=True)
class RouterSpec:
    """How the experts of a token are chosen.

    Attributes:
        kind: of the scores.
        used: how many experts work on a token.
        normalize: the shares of the chosen are divided by their sum. After a softmax over all
            experts, that is a softmax over the chosen.
        scale: multiplies the shares.
        groups: into how many groups the experts are divided for the choice.
        groups_used: how many of the groups may be chosen from.
        group_best: a group is as good as its so many best experts together.
        jitter: how near to the best, relatively, the sparse mixer still looks.
    """

    kind: RouterKind
    used: int
    normalize: bool
    scale: float = 1.0
    groups: int = 1
    groups_used: int = 1
    group_best: int = 1
    jitter: float = 0.0


@dataclass(frozen=True)
class MoeSpec:
    """A mixture of experts (Shazeer et al., arXiv:1701.06538), each with a gate:
    ``down(g * sigmoid(alpha * g) * (u + shift))`` with ``g = gate(x)`` and ``u = up(x)``.

    Attributes:
        experts: how many there are.
        width: inner width of one.
        router: how they are chosen.
        shared_width: inner width of the expert that always works; None where there is none.
        shared_gate: that expert has a gate of its own.
        alpha: 1 for SiLU.
        shift: added to ``u``.
        clamp: ``g`` is at most, ``u`` at most and at least its negative; None for no bound.
    """

    experts: int
    width: int
    router: RouterSpec
    shared_width: int | None = None
    shared_gate: bool = False
    alpha: float = 1.0
    shift: float = 0.0
    clamp: float | None = None
