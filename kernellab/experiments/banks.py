"""Banks by hand: which lanes of a warp collide, from the rules alone, apart from the emulator's counting."""

from __future__ import annotations

from collections.abc import Sequence

BANKS = 32
LANES_A_PHASE = {1: 32, 2: 16, 4: 8}


def wavefronts_of(words: Sequence[int], width: int) -> tuple[tuple[int, ...], ...]:
    """Serve one load of a full warp and return the lane at each bank, a row a wavefront.

    Parameters
    ----------
    words : sequence of int
        The first 4-byte word that each of the 32 lanes reads.
    width : int
        Words a lane reads: 1, 2 or 4. Wider reads go in halves and quarters of a warp, which here are never
        merged: right for lanes that all read different words.

    Returns
    -------
    tuple of tuple of int
        32 entries a row; -1 where a bank is idle.

    Examples
    --------
    >>> len(wavefronts_of([32 * lane for lane in range(32)], 1))
    32
    >>> len(wavefronts_of([33 * lane for lane in range(32)], 1))
    1
    """
    rows: list[tuple[int, ...]] = []
    lanes = LANES_A_PHASE[width]
    for first in range(0, BANKS, lanes):
        queues: list[dict[int, int]] = [{} for _ in range(BANKS)]
        for lane in range(first, first + lanes):
            for word in range(words[lane], words[lane] + width):
                queues[word % BANKS].setdefault(word, lane)
        depth = max(len(queue) for queue in queues)
        served = [list(queue.values()) for queue in queues]
        rows += [tuple(lanes_of[k] if k < len(lanes_of) else -1 for lanes_of in served) for k in range(depth)]
    return tuple(rows)


def tile_words(stride: int, width: int, pitch: int, warp: int = 0, side: int = 32) -> list[int]:
    """Return the first word that each lane reads in the rungs of shared_stride.

    Parameters
    ----------
    stride : int
        Elements between neighbouring lanes.
    width : int
        Words of an element.
    pitch : int
        Elements from one row of the tile to the next.
    warp : int
        Which warp: its first element.
    side : int
        Rows, and elements of a row that hold data.

    Returns
    -------
    list of int
        One word for each of 32 lanes.
    """
    elements = [(lane * stride + warp) % side**2 for lane in range(BANKS)]
    return [width * (element // side * pitch + element % side) for element in elements]


def predicted_wavefronts(stride: int, width: int, pitch: int) -> float:
    """Return the wavefronts a request, averaged over the 32 warps of a tile.

    Examples
    --------
    >>> predicted_wavefronts(32, 1, 32), predicted_wavefronts(32, 1, 33), predicted_wavefronts(2, 1, 32)
    (32.0, 1.0, 2.0)
    """
    counts = [len(wavefronts_of(tile_words(stride, width, pitch, warp), width)) for warp in range(BANKS)]
    return sum(counts) / len(counts)
