"""DecoderSpec and tensors -> an ONNX graph to the decoder contract."""
