"""What a file that should have been a checkpoint looks like instead, told by its first bytes."""

from __future__ import annotations

HEAD_BYTES = 64

_AGAIN = "Download or copy the file again."
_NO_PICKLE = "mrs reads GGUF files, and never pickles, which can run code."
_CONVERT = "Convert it to GGUF first."
_UNPACK = "Unpack it and export the .gguf file inside."

# (leading bytes, what such a file is, what to do about it)
_SIGNATURES: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer", "Fetch the real file with `git lfs pull`."),
    (b"PK\x03\x04", "a zip archive (as wheels and PyTorch files are)", _UNPACK),
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"\x80\x02", "a Python pickle", _NO_PICKLE),
    (b"\x80\x03", "a Python pickle", _NO_PICKLE),
    (b"\x80\x04", "a Python pickle", _NO_PICKLE),
    (b"\x80\x05", "a Python pickle", _NO_PICKLE),
    (b"\x89HDF", "an HDF5 file", _CONVERT),
    (b"lmgg", "a GGML file, the format before GGUF", _CONVERT),
    (b"fmgg", "a GGMF file, a format before GGUF", _CONVERT),
    (b"tjgg", "a GGJT file, a format before GGUF", _CONVERT),
)


def describe_file_kind(head: bytes) -> tuple[str, str]:
    """Say what a file is that does not start with ``GGUF``.

    Args:
        head: the first `HEAD_BYTES` bytes of the file, fewer if it is shorter.

    Returns:
        A noun phrase (``a zip archive``) and the next step to take.
    """
    if not head:
        return "empty", _AGAIN
    for magic, kind, hint in _SIGNATURES:
        if head.startswith(magic):
            return kind, hint
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page", "The link led to a page and not to the file; download it again."
    if text.startswith(b"{"):
        return "a JSON document", "Name the .gguf file itself."
    if head[8:10] == b'{"':
        return "a safetensors file", _CONVERT
    if not head.strip(b"\x00"):
        return "a run of zero bytes (an unfinished download?)", _AGAIN
    if b"GGUF".startswith(head):
        return f"cut off after {len(head)} bytes", _AGAIN
    return f"something else (it starts with bytes {head[:4].hex(' ')})", "Name a .gguf file."
