"""Stored tensors of a Hugging Face folder -> views of them under canonical names."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mrs.errors import CorruptCheckpointError
from mrs.export.architectures.family import HuggingFaceForm
from mrs.export.architectures.tensor_names import canonical_name, is_ignored
from mrs.export.checkpoints.checkpoint import TensorInfo
from mrs.export.checkpoints.tensor_views import (
    Mxfp4,
    PartOfEach,
    PartOfRows,
    ReadRows,
    Stack,
    Stored,
    TensorView,
    Transposed,
)

_LAYER = re.compile(r"(?:blk|model\.layers)\.(\d+)\.")
_BOTH, _PARTS = "ffn_gate_up_exps", ("ffn_gate_exps", "ffn_up_exps")


def canonical_tensors(
    tensors: Mapping[str, TensorInfo], read: ReadRows, form: HuggingFaceForm, layers: int | None
) -> dict[str, TensorView]:
    """Views of all tensors that are not ignored; those without a canonical name keep their own.

    Args:
        tensors: as stored, by their own names.
        read: their rows.
        form: how transformers stores the family.
        layers: of the decoder, if what belongs to further ones is to be left out.

    Raises:
        CorruptCheckpointError: tensors that belong together do not fit.
    """
    views = _named(tensors, read, form)
    if layers is not None:
        views = {name: view for name, view in views.items() if _layer(name) < layers}
    return split_gate_up(_joined(views), in_turn=form.gate_up_in_turn)


def _named(
    tensors: Mapping[str, TensorInfo], read: ReadRows, form: HuggingFaceForm
) -> dict[str, TensorView]:
    alone: dict[str, TensorView] = {}
    names: dict[str, str] = {}
    stacks: dict[str, dict[int, Stored]] = {}
    for name, info in tensors.items():
        if is_ignored(name, form):
            continue
        stored = Stored(info, read)
        canonical = canonical_name(name, form)
        if canonical is None:
            alone[name] = stored
        elif canonical.index is not None:
            stacks.setdefault(canonical.name, {})[canonical.index] = stored
        elif canonical.name in names:
            raise CorruptCheckpointError(
                f"The tensors {names[canonical.name]!r:.120} and {name!r:.120} are the same part "
                "of the model.",
                hint="Leave only the files of one model in the folder.",
            )
        else:
            names[canonical.name] = name
            turned = canonical.stem in form.transposed and canonical.name.endswith(".weight")
            alone[canonical.name] = Transposed(stored) if turned else stored
    for name, members in stacks.items():
        add_view(alone, name, stacked(name, members))
    return alone


def add_view(views: dict[str, TensorView], name: str, view: TensorView) -> None:
    """Add a view that must be the only one of its name.

    Raises:
        CorruptCheckpointError: it is not.
    """
    if name in views:
        raise CorruptCheckpointError(
            f"The checkpoint holds {name} twice, in different forms.",
            hint="Leave only the files of one model in the folder.",
        )
    views[name] = view


def stacked(name: str, members: Mapping[int, Stored]) -> TensorView:
    """The tensors of all experts as one.

    Raises:
        CorruptCheckpointError: one is missing, or they differ in shape or type.
    """
    if sorted(members) != list(range(len(members))):
        missing = next(index for index in range(len(members)) if index not in members)
        raise CorruptCheckpointError(
            f"Of the {len(members)} tensors that make up {name}, number {missing} is missing.",
            hint="Download the model again.",
        )
    return Stack([members[index] for index in range(len(members))])


def _joined(views: Mapping[str, TensorView]) -> dict[str, TensorView]:
    """Tensors of which codes and exponents are stored apart."""
    found = dict(views)
    for name in views:
        stem, _, last = name.rpartition(".")
        if last != "mxfp4_codes":
            continue
        codes, exponents = found.pop(name), found.pop(f"{stem}.mxfp4_exponents", None)
        if not isinstance(codes, Stored) or not isinstance(exponents, Stored):
            raise CorruptCheckpointError(
                f"The checkpoint lacks the exponents of {stem}.", hint="Download the model again."
            )
        add_view(found, f"{stem}.weight", Mxfp4(codes, exponents))
    return found


def split_gate_up(views: Mapping[str, TensorView], *, in_turn: bool) -> dict[str, TensorView]:
    """Gate and up of the experts as two tensors where they are one.

    Args:
        views: by canonical name.
        in_turn: rows of gate and up alternate.

    Raises:
        CorruptCheckpointError: a tensor cannot be split so.
    """
    found = dict(views)
    for name, view in views.items():
        if f".{_BOTH}." not in name:
            continue
        del found[name]
        part_of = PartOfRows if name.endswith(".bias") else PartOfEach
        for part, stem in enumerate(_PARTS):
            add_view(found, name.replace(_BOTH, stem), part_of(view, part, in_turn))
    return found


def _layer(name: str) -> int:
    match = _LAYER.match(name)
    return int(match[1]) if match else -1
