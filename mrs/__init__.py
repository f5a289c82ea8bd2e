"""Export language models to ONNX, version them, and serve them to OpenAI clients."""

__version__ = "0.1.0"
