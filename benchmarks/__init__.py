"""Measurements, run by hand: against peers, in turns, medians and ratios."""
