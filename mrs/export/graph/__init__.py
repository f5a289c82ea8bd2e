"""DecoderSpec and tensors -> an ONNX graph to the decoder contract."""

from mrs.export.lazy_modules import load_lazily

# onnx_ir imports sympy for arithmetic on symbolic dimensions, of which there is none here: half a
# second of each export.
load_lazily("sympy", "onnx_ir._symbolic_shapes")
