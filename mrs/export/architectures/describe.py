"""Family, metadata and tensors -> DecoderSpec."""

from __future__ import annotations

from mrs.errors import CorruptCheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.expert_spec import MoeSpec
from mrs.export.architectures.experts import moe_spec
from mrs.export.architectures.family import Family, HuggingFaceForm
from mrs.export.architectures.latent_attention import latent_attention_spec
from mrs.export.architectures.metadata import ArchitectureMetadata
from mrs.export.architectures.promised_tensors import check_promised_tensors
from mrs.export.architectures.rope_scaling import UNUSED_FACTORS, rope_scaling
from mrs.export.architectures.spec import (
    MOST_LAYERS,
    Activation,
    AttentionSpec,
    DecoderSpec,
    LatentAttentionSpec,
    LayerSpec,
    MlpSpec,
    NormKind,
    NormSpec,
    RopeLayout,
    RopeSpec,
)
from mrs.export.checkpoints.checkpoint import Checkpoint, CheckpointFormat


def describe_decoder(
    family: Family, checkpoint: Checkpoint, *, embeds: bool = False
) -> DecoderSpec:
    """Describe a checkpoint of a family, under canonical names.

    Args:
        family: of the checkpoint.
        checkpoint: to describe.
        embeds: it is the body of an embedding model, which may attend in both directions.

    Raises:
        CorruptCheckpointError: metadata is missing or contradicts itself.
        UnsupportedArchitectureError: a variant that is not exported.
    """
    return _Description(family, checkpoint, embeds=embeds).decoder()


class _Description:
    def __init__(self, family: Family, checkpoint: Checkpoint, *, embeds: bool) -> None:
        self._family = family
        self._embeds = embeds
        self._checkpoint = checkpoint
        stored = checkpoint.format
        defaults = family.gguf_defaults if stored is CheckpointFormat.GGUF else {}
        self._metadata = ArchitectureMetadata(checkpoint, defaults)
        self._hidden = self._metadata.size("embedding_length")
        blocks = self._metadata.size("block_count", largest=MOST_LAYERS)
        # llama.cpp counts the layers that only draft tokens among the blocks.
        drafting = self._metadata.optional_size("nextn_predict_layers") or 0
        self._drafting = min(drafting, blocks - 1)
        self._num_layers = blocks - self._drafting

    def decoder(self) -> DecoderSpec:
        family, metadata = self._family, self._metadata
        if not self._embeds and not self._is_causal():
            raise UnsupportedArchitectureError(
                f"This {family.name} checkpoint attends in both directions; only causal models "
                "are supported.",
                hint="Export a model that generates text.",
            )
        check_promised_tensors(family, self._checkpoint, metadata, self._num_layers)
        # A model without the factor that its family divides by is another one.
        needed = None if family.divides_logits else 1.0
        logit_scale = metadata.number("logit_scale", needed)
        root = float(self._hidden**0.5) if family.scale_embeddings else 1.0
        return DecoderSpec(
            architecture=family.name,
            hidden_size=self._hidden,
            vocab_size=_vocab_size(self._checkpoint),
            context_length=metadata.size("context_length"),
            norm=self._norm(),
            layers=tuple(self._layer(index) for index in range(self._num_layers)),
            tied_embeddings=self._tied(),
            learned_positions=self._learned_positions(),
            embedding_scale=metadata.optional_number("embedding_scale") or root,
            residual_scale=metadata.optional_number("residual_scale") or 1.0,
            logit_scale=1.0 / logit_scale if family.divides_logits else logit_scale,
            logit_softcap=metadata.optional_number("final_logit_softcapping") or 0.0,
            needless=self._needless(),
        )

    def _is_causal(self) -> bool:
        return self._metadata.flag("attention.causal", True)

    def _needless(self) -> tuple[str, ...]:
        drafting = range(self._num_layers, self._num_layers + self._drafting)
        factors = [name for name in UNUSED_FACTORS if name in self._checkpoint.tensors]
        return (*factors, *(f"blk.{layer}.*" for layer in drafting))

    def _learned_positions(self) -> int:
        table = self._checkpoint.tensors.get("position_embd.weight")
        if not self._family.learned_positions:
            return 0
        if table is None or len(table.shape) != 2:
            raise CorruptCheckpointError(
                "The checkpoint lacks the matrix position_embd.weight.",
                hint="Convert the model again with a current converter.",
            )
        if table.shape[0] < (context := self._metadata.size("context_length")):
            raise CorruptCheckpointError(
                f"The tensor 'position_embd.weight' has {table.shape[0]} rows; its metadata says "
                f"{context}.",
                hint="Download the model again, or convert it with a current converter.",
            )
        return table.shape[0]

    def _norm(self) -> NormSpec:
        family, metadata = self._family, self._metadata
        epsilon = None
        if family.norm is NormKind.LAYER:
            epsilon = metadata.optional_number("attention.layer_norm_epsilon")
        return NormSpec(
            kind=family.norm,
            # Some families with layer norms call theirs by the other's name.
            epsilon=epsilon or metadata.number("attention.layer_norm_rms_epsilon"),
            offset=self._form.norm_offset if self._form is not None else 0.0,
        )

    def _tied(self) -> bool:
        """A head that a config says is there must be, not the embedding in its place."""
        stored = "output.weight" in self._checkpoint.tensors
        tied = self._metadata.optional_flag("stated.tie_word_embeddings")
        return not stored if tied is None else tied

    # --- layers -----------------------------------------------------------------------------------

    def _layer(self, index: int) -> LayerSpec:
        family = self._family
        parallel = self._metadata.flag("use_parallel_residual", family.parallel)
        if family.shared_norm and self._has(index, "ffn_norm"):
            parallel = False
        two_norms = self._has(index, "attn_norm_2")
        shared = two_norms or (parallel and family.shared_norm)
        return LayerSpec(
            attention=self._attention(index),
            mlp=self._mlp(index),
            parallel=parallel,
            # With two norms, llama.cpp's first is that of Falcon's MLP.
            attention_norm="attn_norm_2" if two_norms else "attn_norm",
            mlp_norm="attn_norm" if shared else "ffn_norm",
            pre_norm=self._family.pre_norm,
            post_norm=self._family.post_norm,
        )

    def _mlp(self, index: int) -> MlpSpec | MoeSpec:
        family, metadata = self._family, self._metadata
        experts = moe_spec(family, self._checkpoint, metadata, index, self._num_layers)
        if experts is not None:
            return experts
        return MlpSpec(
            width=metadata.size("feed_forward_length", self._inner_width()),
            activation=self._activation(),
            gated=family.gated,
        )

    def _inner_width(self) -> int | None:
        """Of the first MLP, by its tensor: not every configuration tells."""
        down = self._checkpoint.tensors.get("blk.0.ffn_down.weight")
        return down.shape[-1] if down is not None else None

    def _activation(self) -> Activation:
        name = self._metadata.text("hidden_activation", self._family.activation.value)
        try:
            return Activation(name)
        except ValueError:
            raise UnsupportedArchitectureError(
                f"The activation {name!r:.80} is not supported; supported: "
                f"{', '.join(sorted(member.value for member in Activation))}.",
                hint="Export a model with one of these.",
            ) from None

    def _attention(self, index: int) -> AttentionSpec | LatentAttentionSpec:
        metadata = self._metadata
        if self._family.latent_attention:
            return latent_attention_spec(self._checkpoint, metadata, index)
        heads = metadata.size("attention.head_count")
        kv_heads = metadata.size("attention.head_count_kv", heads)
        if heads % kv_heads:
            raise CorruptCheckpointError(
                f"{heads} query heads cannot be shared out to {kv_heads} key/value heads.",
                hint="Convert the model again with a current converter.",
            )
        head_dim = metadata.size("attention.key_length", max(1, self._hidden // heads))
        multiple = 8 if self._family.learned_positions else 16
        if head_dim % multiple:
            raise UnsupportedArchitectureError(
                f"The head size is {head_dim}; ONNX Runtime's attention needs a multiple of "
                f"{multiple}.",
                hint="Export a model with another head size.",
            )
        window = self._window(index)
        wide = self._num_layers in self._family.wide_scale_layers
        natural = (self._hidden / heads if wide else head_dim) ** -0.5
        return AttentionSpec(
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            rope=self._rope(index, head_dim, window),
            scale=metadata.optional_number("attention.scale") or natural,
            softcap=metadata.optional_number("attn_logit_softcapping") or 0.0,
            window=window,
            causal=self._is_causal(),
            query_key_norm=self._family.query_key_norm or self._has(index, "attn_q_norm"),
            packed_by_group=self._form is not None and self._form.packed_by_group,
            sinks=self._family.sinks,
        )

    def _has(self, index: int, stem: str) -> bool:
        return f"blk.{index}.{stem}.weight" in self._checkpoint.tensors

    def _window(self, index: int) -> int | None:
        window = self._metadata.optional_size("attention.sliding_window")
        if window is None:
            return None
        slides = self._metadata.flags("attention.sliding_window_pattern", self._num_layers)
        if slides is not None:
            return window if slides[index] else None
        every = self._family.full_attention_every
        return None if every and (index + 1) % every == 0 else window

    # --- positions --------------------------------------------------------------------------------

    def _rope(self, index: int, head_dim: int, window: int | None) -> RopeSpec | None:
        family, metadata = self._family, self._metadata
        if family.learned_positions or (window is None and self._only_windows_rotate()):
            return None
        rotates = metadata.flags("rope.layers", self._num_layers)
        if rotates is not None and not rotates[index]:
            return None
        dims = metadata.size("rope.dimension_count", head_dim)
        if dims % 2 or -(-dims // 16) * 16 > head_dim:
            raise UnsupportedArchitectureError(
                f"{dims} of {head_dim} dimensions are rotated; rounded up to a multiple of 16, "
                f"that must be at most the head size.",
                hint="Export a model with another rotary size.",
            )
        base = metadata.number("rope.freq_base", 10000.0)
        window_base = metadata.optional_number("rope.freq_base_swa")
        if window is not None and (window_base is not None or family.plain_windows):
            return RopeSpec(window_base or base, dims, self._layout())
        scaling = rope_scaling(self._checkpoint, metadata, dims)
        return RopeSpec(base, dims, self._layout(), scaling)

    def _only_windows_rotate(self) -> bool:
        has_windows = self._metadata.optional_size("attention.sliding_window") is not None
        everywhere = self._family.rotates_without_windows and not has_windows
        return self._family.rope_in_windows_only and not everywhere

    def _layout(self) -> RopeLayout:
        if self._form is not None:
            return self._form.layout
        return RopeLayout.HALVES if self._has_sections() else self._family.gguf_layout

    def _has_sections(self) -> bool:
        """Whether images turn by positions of their own; llama.cpp pairs the halves of such heads.

        In text all positions agree, so the rotation is the usual one.
        """
        key = f"{self._checkpoint.architecture}.rope.dimension_sections"
        sections = self._checkpoint.metadata.get(key)
        return isinstance(sections, list) and [bool(count) for count in sections[:2]] == [True] * 2

    @property
    def _form(self) -> HuggingFaceForm | None:
        """How transformers stores the family, if the checkpoint is stored so."""
        stored = self._checkpoint.format
        return self._family.huggingface if stored is CheckpointFormat.HUGGING_FACE else None


def _vocab_size(checkpoint: Checkpoint) -> int:
    embedding = checkpoint.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise CorruptCheckpointError(
            "The checkpoint lacks the matrix token_embd.weight.",
            hint="Convert the model again with a current converter.",
        )
    return embedding.shape[0]
