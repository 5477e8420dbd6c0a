"""Draw what a layer does, as the tables of md(4) do: a line for each chunk of the members."""

from __future__ import annotations

from ext4audit.layout.layer import Layer

CHUNK_BYTES = 65536


def draw(layer: Layer, members: int, chunks: int) -> list[str]:
    """Return the rows of chunks on the members: data by number, parity P and Q, "." for none."""
    drawn: dict[tuple[int, int], str] = {}
    for chunk in range(chunks):
        byte = chunk * CHUNK_BYTES
        for name, (member, at) in zip("PQ", layer.parity(byte), strict=False):
            drawn[at // CHUNK_BYTES, member] = name
        for member, at in layer.data(byte):
            assert at % CHUNK_BYTES == 0
            drawn[at // CHUNK_BYTES, member] = str(chunk)
    rows = 1 + max(row for row, _ in drawn)
    return [
        " ".join(drawn.get((row, member), ".") for member in range(members)) for row in range(rows)
    ]
