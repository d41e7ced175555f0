"""A file's bytes, as the process sees them and as the platter has them.

- Bytes are durable as of the last good sync; the rest is *dirty*, from `_clean` on.
- A failed sync writes some of the dirty pages, it is unknown which, and marks all of them clean: no later sync
  writes them again, though the process still reads them. Those ranges are *lost*.
- A power loss keeps every durable byte. What was dirty or lost is, sector by sector, as before, as written, or zero.
"""

from __future__ import annotations

from random import Random

SECTOR_BYTES = 512


class VolatileFile:
    """One file (an inode), without a name. Not thread-safe."""

    __slots__ = ("_allocated", "_clean", "_content", "_durable", "_durable_allocated", "_lost")

    def __init__(self, content: bytearray | None = None, allocated: int = 0) -> None:
        self._content = bytearray() if content is None else content
        self._allocated = allocated
        self._durable = bytearray(self._content)
        self._durable_allocated = allocated
        self._clean = len(self._content)
        self._lost: list[tuple[int, int]] = []

    @property
    def size(self) -> int:
        """Return the size that a reader sees, preallocated zeroes included."""
        return max(len(self._content), self._allocated)

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes that a reader sees."""
        end = min(position + length, self.size)
        data = bytes(memoryview(self._content)[position:end])
        return data + bytes(max(0, end - position - len(data)))

    def append(self, data: bytes | memoryview) -> None:
        """Write after the last byte appended, into preallocated space if there is some."""
        self._content += data

    def truncate(self, size: int) -> None:
        """Cut to `size`, which lies within what a reader sees; preallocated space beyond goes."""
        assert 0 <= size <= self.size, (size, self.size)
        self._content += bytes(max(0, size - len(self._content)))
        del self._content[size:]
        self._allocated = size
        self._clean = min(self._clean, size)
        self._lost = [(start, min(end, size)) for start, end in self._lost if start < size]

    def rewrite(self) -> None:
        """Make all of it dirty again, and nothing lost: the next sync writes it."""
        self._clean, self._lost = 0, []

    def preallocate(self, size: int) -> None:
        """Make the file read as zeroes up to `size`."""
        self._allocated = max(self._allocated, size)

    def sync(self) -> None:
        """Make durable what is dirty; what an earlier failure lost stays lost."""
        if self._clean < len(self._content) or len(self._durable) > len(self._content):
            self._durable += bytes(max(0, self._clean - len(self._durable)))
            self._durable[self._clean :] = self._content[self._clean :]
            self._clean = len(self._content)
        self._durable_allocated = self._allocated

    def fail_sync(self) -> None:
        """Lose what is dirty."""
        if self._clean < len(self._content):
            self._lost.append((self._clean, len(self._content)))
            self._clean = len(self._content)

    def after_power_loss(self, random: Random) -> VolatileFile:
        """Return the file as it may come back."""
        image = bytearray(self._durable)
        for start, end in self._lost:
            self._scatter(image, start, min(end, len(image)), random)
        # A lost range at the end may not even have grown the file.
        start = min(self._clean, len(image))
        if start < max(len(self._content), len(image)):
            self._settle_dirty(image, start, random)
        return VolatileFile(image, random.choice((self._allocated, self._durable_allocated)))

    def _settle_dirty(self, image: bytearray, start: int, random: Random) -> None:
        fate = random.choice(("dropped", "kept", "cut", "cut at sector", "scattered"))
        if fate == "kept":
            image[start:] = self._content[start:]
        elif fate == "cut":
            image[start:] = self._content[start : random.randint(start, len(self._content))]
        elif fate == "cut at sector":
            sectors = random.randint(start // SECTOR_BYTES, len(self._content) // SECTOR_BYTES)
            image[start:] = self._content[start : max(start, sectors * SECTOR_BYTES)]
        elif fate == "scattered":
            size = random.choice((len(self._content), max(len(self._content), len(image))))
            del image[size:]
            image += bytes(size - len(image))
            self._scatter(image, start, size, random)

    def _scatter(self, image: bytearray, start: int, end: int, random: Random) -> None:
        """Let each sector of a range be, by itself, as written (half of them), as before, or zero."""
        while start < end:
            stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
            fate = random.random()
            if fate < 0.5:
                written = self._content[start:stop]
                image[start : start + len(written)] = written
            elif fate < 0.75:
                image[start:stop] = bytes(stop - start)
            start = stop

    def flip_bit(self, position: int, bit: int) -> None:
        """Damage one bit, on the platter and for the reader."""
        assert 0 <= position < self.size, (position, self.size)
        assert 0 <= bit < 8, bit
        if position >= len(self._content):
            self._content += bytes(position + 1 - len(self._content))
            self.sync()
        for image in (self._content, self._durable):
            if position < len(image):
                image[position] ^= 1 << bit

    def cut(self, size: int) -> None:
        """Damage the file by losing its end, on the platter and for the reader."""
        self.truncate(size)
        del self._durable[size:]
        self._durable_allocated = min(self._durable_allocated, size)
