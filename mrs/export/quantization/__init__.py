"""Block formats of quantized weights and their exact packing for MatMulNBits."""
