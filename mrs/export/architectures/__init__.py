"""One small file per model family: checkpoint metadata -> DecoderSpec."""
