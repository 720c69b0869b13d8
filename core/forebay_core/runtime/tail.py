"""Copies the output of work as it is written."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence

from forebay import Engine, LeaseId, LogStream

CHUNK_BYTES = 256 * 1024
"""Most that is asked of an engine at once."""


class Tail:
    """Reads the streams of one piece of work from where it last stopped.

    Parameters
    ----------
    engine : Engine
    lease : LeaseId
    streams : sequence of LogStream
    """

    def __init__(self, engine: Engine, lease: LeaseId, streams: Sequence[LogStream]) -> None:
        self._engine = engine
        self._lease = lease
        self._offsets = dict.fromkeys(streams, 0)

    def read(self, stream: LogStream) -> bytes:
        """Return everything new of one stream."""
        parts = []
        while True:
            chunk = self._engine.logs(self._lease, stream, self._offsets[stream], CHUNK_BYTES)
            data = base64.b64decode(chunk.data_base64)
            self._offsets[stream] = chunk.next_offset
            parts.append(data)
            if len(data) < CHUNK_BYTES:
                return b"".join(parts)

    def copy(self) -> bool:
        """Write everything new to this process's own streams; returns whether there was any."""
        copied = False
        for stream in self._offsets:
            data = self.read(stream)
            if data:
                copied = True
                target = sys.stdout if stream is LogStream.STDOUT else sys.stderr
                target.flush()
                target.buffer.write(data)
                target.buffer.flush()
        return copied

    def text(self) -> dict[str, str]:
        """Return everything new of all streams, bytes that are not UTF-8 replaced."""
        return {
            stream.value: self.read(stream).decode("utf-8", "replace") for stream in self._offsets
        }
