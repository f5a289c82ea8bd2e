"""``config.json`` -> metadata under GGUF's keys.

GGUF has a name for nearly everything that a config says of a decoder. What only a config knows is
put under keys of our own: ``hidden_activation``, ``rope.layers`` (which layers rotate), and in
``rope.scaling``: ``amplitude`` (the final factor of cosines and sines), ``low_freq_factor``,
``high_freq_factor``, ``long_factors``, ``short_factors`` and ``truncate``. Under ``stated`` are
flags that say which tensors there are (`mrs.export.architectures.promised_tensors`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from mrs.errors import CheckpointError, UnsupportedArchitectureError
from mrs.export.architectures.family import HuggingFaceForm
from mrs.export.architectures.rope_scaling import longrope_amplitude
from mrs.export.architectures.spec import Activation
from mrs.export.checkpoints.checkpoint import MetadataValue
from mrs.export.checkpoints.hf_config import HfConfig
from mrs.export.checkpoints.json_section import JsonSection

_SIZES: Mapping[str, str] = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length",
}
_NUMBERS: Mapping[str, str] = {
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "layer_norm_eps": "attention.layer_norm_epsilon",
    "layer_norm_epsilon": "attention.layer_norm_epsilon",
    "norm_epsilon": "attention.layer_norm_epsilon",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "logit_scale": "logit_scale",
}
_FLAGS: Mapping[str, str] = {"use_parallel_residual": "use_parallel_residual"}
_ACTIVATION_KEYS = ("hidden_activation", "hidden_act", "activation_function")
_ACTIVATIONS: Mapping[str, Activation] = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_fast": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "quick_gelu": Activation.QUICK_GELU,
    "relu": Activation.RELU,
    "relu2": Activation.RELU_SQUARED,
}
_MAX_LAYERS = 10_000
_SLIDING, _FULL = "sliding_attention", "full_attention"


def config_metadata(name: str, form: HuggingFaceForm, config: HfConfig) -> dict[str, MetadataValue]:
    """The metadata of a model, under ``<name>.``.

    Args:
        name: the architecture's, in GGUF's words.
        form: how transformers stores the family.
        config: ``config.json``.

    Raises:
        CheckpointError: a value is missing or of the wrong type.
        UnsupportedArchitectureError: an activation or scaling that mrs does not have.
    """
    found = _Translation(_usual_values(form, config), form).metadata()
    return {f"{name}.{key}": value for key, value in found.items()}


def _usual_values(form: HuggingFaceForm, config: HfConfig) -> JsonSection:
    """The configuration with all that the family's class adds to it, under the usual keys."""
    stated = {**config.outer.values, **config.values}
    for own, usual in form.aliases.items():
        if stated.get(own) is not None and stated.get(usual) is None:
            stated[usual] = stated[own]
    values = JsonSection(config.file, {**form.defaults, **stated})
    if (values.optional_size("num_hidden_layers") or 0) > _MAX_LAYERS:
        # Before a list is made that has an item for each of them.
        raise values.wrong("num_hidden_layers", f"a whole number from 1 to {_MAX_LAYERS}")
    for key, wanted in form.only.items():
        if (found := values.values.get(key, wanted)) not in (wanted, None):
            raise UnsupportedArchitectureError(
                f"{config.file}: {key} is {json.dumps(found):.80}; mrs exports this family with "
                f"{json.dumps(wanted)} alone.",
                hint="Export another model of the family.",
            )
    if form.derived is None:
        return values
    return JsonSection(config.file, {**values.values, **form.derived(values)})


class _Translation:
    def __init__(self, config: JsonSection, form: HuggingFaceForm) -> None:
        self._config = config
        self._form = form
        self._found: dict[str, MetadataValue] = {}

    def metadata(self) -> dict[str, MetadataValue]:
        config, found = self._config, self._found
        for key, canonical in _SIZES.items():
            if (size := config.optional_size(key)) is not None:
                found[canonical] = size
        for key, canonical in _NUMBERS.items():
            if (number := config.optional_number(key)) is not None:
                found[canonical] = number
        for key, canonical in _FLAGS.items():
            if (flag := config.optional_flag(key)) is not None:
                found[canonical] = flag
        for key, canonical in self._form.config.items():
            if config.has(key):
                found[canonical] = _plain(config, key)
        for key in ("tie_word_embeddings", *self._form.stated):
            if (flag := config.optional_flag(key)) is not None:
                found[f"stated.{key}"] = flag
        if (scalar := config.optional_number("query_pre_attn_scalar")) is not None:
            if scalar <= 0:
                raise config.wrong("query_pre_attn_scalar", "a number above 0")
            found["attention.scale"] = scalar**-0.5
        if config.optional_flag("use_bidirectional_attention"):
            found["attention.causal"] = False
        elif config.optional_flag("is_causal") is False:
            self._refuse_windows()
            found["attention.causal"] = False
        self._activation()
        self._windows()
        self._rope()
        return found

    def _refuse_windows(self) -> None:
        """transformers' windows reach as far to both sides here, and half as far in Gemma."""
        slides = self._config.flag("use_sliding_window", True)
        if slides and self._config.optional_size("sliding_window") is not None:
            raise UnsupportedArchitectureError(
                "A sliding window with is_causal: false is not supported.",
                hint="Export a model of a supported family.",
            )

    def _activation(self) -> None:
        for key in _ACTIVATION_KEYS:
            name = self._config.optional_text(key)
            if name is None:
                continue
            known = {**_ACTIVATIONS, **self._form.activations}
            if name not in known:
                raise UnsupportedArchitectureError(
                    f"The activation {name!r:.80} is not supported; supported: "
                    f"{', '.join(sorted(known))}.",
                    hint="Export a model with one of these.",
                )
            self._found["hidden_activation"] = known[name].value
            return

    def _windows(self) -> None:
        config, found = self._config, self._found
        if config.flag("use_sliding_window", True) is False:
            return
        window = config.optional_size("sliding_window")
        if window is None:
            return
        found["attention.sliding_window"] = window
        kinds = config.optional_texts("layer_types")
        if kinds is not None:
            found["attention.sliding_window_pattern"] = [kind == _SLIDING for kind in kinds]
        elif config.has("use_sliding_window") and config.has("max_window_layers"):
            first = config.count("max_window_layers")
            layers = config.size("num_hidden_layers")
            found["attention.sliding_window_pattern"] = [index >= first for index in range(layers)]
        elif (every := config.optional_size("sliding_window_pattern")) is not None:
            found["attention.sliding_window_pattern"] = every

    def _rope(self) -> None:
        config, found = self._config, self._found
        if (rotates := config.optional_counts("no_rope_layers")) is not None:
            found["rope.layers"] = [bool(flag) for flag in rotates]
        if (local := config.optional_number("rope_local_base_freq")) is not None:
            found["rope.freq_base_swa"] = local
        rope = self._rope_parameters()
        base = rope.optional_number("rope_theta") or config.optional_number("rope_theta")
        if base is not None:
            found["rope.freq_base"] = base
        share = rope.optional_number("partial_rotary_factor")
        share = share or config.optional_number("partial_rotary_factor")
        if share is not None:
            if not 0 < share <= 1:
                raise CheckpointError(
                    f"{config.file}: partial_rotary_factor is {share:.6g}, not a number from 0 "
                    "to 1.",
                    hint="Get the model's own config.json.",
                )
            found["rope.dimension_count"] = int(self._head_dim() * share)
        kind = rope.optional_text("rope_type") or rope.optional_text("type") or "default"
        self._scaling(kind, rope)

    def _rope_parameters(self) -> JsonSection:
        """What is said of the rotation of layers that see everything.

        Newer configs have it by kind of layer, older ones the scaling alone.
        """
        config = self._config
        rope = config.optional_section("rope_parameters") or config.optional_section("rope_scaling")
        if rope is None:
            return JsonSection(config.file, {})
        if (sliding := rope.optional_section(_SLIDING)) is not None:
            if (base := sliding.optional_number("rope_theta")) is not None:
                self._found["rope.freq_base_swa"] = base
            kind = sliding.optional_text("rope_type") or "default"
            if kind != "default":
                raise UnsupportedArchitectureError(
                    f"The rope scaling {kind!r:.80} in layers with a window is not supported.",
                    hint="Export a model that scales the other layers alone.",
                )
        elif not rope.has(_FULL):
            return rope
        return rope.optional_section(_FULL) or JsonSection(config.file, {})

    def _head_dim(self) -> int:
        config = self._config
        sizes = config.size("hidden_size") // config.size("num_attention_heads")
        return config.optional_size("head_dim") or sizes

    def _scaling(self, kind: str, rope: JsonSection) -> None:
        found = self._found
        if kind == "default":
            found["rope.scaling.type"] = "none"
            return
        if kind == "su" or (kind == "yarn" and rope.has("long_factor")):
            kind = "longrope"  # As early configurations of Phi-3 call it.
        found["rope.scaling.type"] = kind
        original = rope.optional_size("original_max_position_embeddings")
        original = original or self._config.optional_size("original_max_position_embeddings")
        if original is not None:
            found["rope.scaling.original_context_length"] = original
        elif kind == "dynamic":
            context = self._config.size("max_position_embeddings")
            found["rope.scaling.original_context_length"] = context
        for key in ("factor", "low_freq_factor", "high_freq_factor"):
            if (number := rope.optional_number(key)) is not None:
                found[f"rope.scaling.{key}"] = number
        if kind == "yarn":
            self._yarn(rope)
        if kind == "longrope":
            self._longrope(rope)

    def _factor(self, rope: JsonSection) -> float:
        """How many times the original context the model was made for."""
        factor = rope.optional_number("factor")
        if factor is not None:
            return factor
        original = self._found.get("rope.scaling.original_context_length")
        context = self._config.size("max_position_embeddings")
        return context / original if isinstance(original, int) else 1.0

    def _yarn(self, rope: JsonSection) -> None:
        found, factor = self._found, self._factor(rope)
        found["rope.scaling.factor"] = factor
        for key in ("beta_fast", "beta_slow"):
            if (number := rope.optional_number(key)) is not None:
                found[f"rope.scaling.yarn_{key}"] = number
        found["rope.scaling.truncate"] = rope.flag("truncate", True)
        amplitude = rope.optional_number("attention_factor")
        if amplitude is None:
            scale, whole = (rope.optional_number(key) for key in ("mscale", "mscale_all_dim"))
            amplitude = _yarn_amplitude(factor, 1.0)
            if scale and whole:
                amplitude = _yarn_amplitude(factor, scale) / _yarn_amplitude(factor, whole)
        found["rope.scaling.amplitude"] = amplitude

    def _longrope(self, rope: JsonSection) -> None:
        found = self._found
        found["rope.scaling.long_factors"] = rope.numbers("long_factor")
        found["rope.scaling.short_factors"] = rope.numbers("short_factor")
        amplitude = rope.optional_number("attention_factor")
        original = found.get("rope.scaling.original_context_length")
        if amplitude is None and isinstance(original, int):
            amplitude = longrope_amplitude(self._factor(rope), original)
        if amplitude is not None:
            found["rope.scaling.amplitude"] = amplitude


def _yarn_amplitude(factor: float, scale: float) -> float:
    """Source: YaRN, section 3.4."""
    return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0


def _plain(config: JsonSection, key: str) -> MetadataValue:
    """A value as it is: a flag, a number, a text, or a list of such."""
    value = config.values[key]
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list) and all(isinstance(item, int | float | str) for item in value):
        return value
    raise config.wrong(key, "a plain value")
