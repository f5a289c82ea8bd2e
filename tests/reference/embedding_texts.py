"""Texts whose vectors are compared, of all lengths and some that tokenizers stumble on."""

from __future__ import annotations

TEXTS = (
    "Hello world",
    "a",
    "The lighthouse stood at the end of a long spit of sand, and nobody in the village could "
    "remember a night on which it had not burned.",
    "Ça va? Über den Wolken – naïve café, Straße, Ωμέγα.",
    "def brightness(distance_km: float) -> float:\n    return 1200 / (4 * 3.14159 * distance_km)",
    "東京は日本の首都です。",
    "Antidisestablishmentarianism, supercalifragilisticexpialidocious!",
    "one two three four five six seven eight nine ten " * 12,
    "What would happen if you slept in? the children asked her.",
    "  spaces\tand\nlines   between   words  ",
)
