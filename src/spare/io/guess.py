"""What a file looks like from its first bytes, for the sentence that refuses it."""

from __future__ import annotations

HEAD = 4096
_PICKLES = (b"\x02", b"\x03", b"\x04", b"\x05")
_KNOWN = (
    (b"PAR1", "a Parquet file"),
    *((b"\x80" + version, "a Python pickle, which can run code when it is opened") for version in _PICKLES),
    (b"PK\x03\x04", "a zip archive (NumPy, PyTorch and Keras write such files)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"ARROW1", "an Arrow file"),
    (b"\x89PNG", "a PNG picture"),
    (b"\x7fELF", "a program"),
)


def looks_like(head: bytes) -> str:
    """What a file is, as far as its first `HEAD` bytes tell."""
    if not head:
        return "an empty file"
    for start, name in _KNOWN:
        if head.startswith(start):
            return name
    if head[8:10] == b'{"':
        return "a safetensors file"
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) < HEAD or error.start < HEAD - 4:  # not merely cut within its last letter
            return "bytes of an unknown kind"
        text = head[: error.start].decode("utf-8")
    return "a JSON text" if text.lstrip()[:1] in ("{", "[") else "a text"
