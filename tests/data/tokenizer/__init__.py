"""Reference token ids, made by llama.cpp."""
