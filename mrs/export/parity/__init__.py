"""How near an exported model is to the float32 graph of the same checkpoint, and how fast it is."""
