"""Speculative decoding: tokens are guessed, and the model checks several in one step.

The next token is drawn as always, from logits that the step gives for each guess; a guess is right
where just that token is drawn. So an answer is the one that it would have been, greedy or not, and
its random stream, penalties and grammar know nothing of guesses. (Leviathan et al., "Fast Inference
from Transformers via Speculative Decoding", 2023, with a proposal that is certain of one token.)
"""
