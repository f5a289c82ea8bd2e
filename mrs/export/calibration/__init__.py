"""Measures the activations that meet each matrix, on a text of the user's choice."""
