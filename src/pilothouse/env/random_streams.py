"""Random streams, uids and name suffixes.

Each use of randomness has a stream of its own name, so that an additional draw in one place does not change the results
of others: a seed keeps its scenario when the program around it changes.
"""

import datetime
import os
import random
import zlib

NAME_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no similar characters (apimachinery ``util/rand``, v0.36), so that generated names contain no words."""

_HEX = "0123456789abcdef"


class RandomStreams:
    """All randomness of one process, from one seed. Without a seed it is seeded by the operating system."""

    __slots__ = ("_claimed", "_claimed_at", "_streams", "_uid_bits", "seed")

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed if seed is not None else int.from_bytes(os.urandom(16), "big")
        self._streams: dict[str, random.Random] = {}
        self._uid_bits = self.stream("uid").getrandbits
        self._claimed: set[str] = set()
        self._claimed_at: datetime.datetime | None = None

    def stream(self, name: str) -> random.Random:
        """The random stream of that name; the same object every time."""
        rng = self._streams.get(name)
        if rng is None:
            rng = random.Random(f"{self.seed}/{name}/{zlib.crc32(name.encode())}")
            self._streams[name] = rng
        return rng

    def uid(self) -> str:
        """A new RFC 4122 version 4 uid."""
        bits = self._uid_bits(128)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_HEX[8 | (bits & 3)]}{text[17:20]}-{text[20:]}"

    def claim(self, name: str, at: datetime.datetime) -> bool:
        """Whether nobody has claimed this name at this time, which is that of the last claims. For names made of a
        time: in virtual time many programs make one at the same instant."""
        if at != self._claimed_at:
            self._claimed_at = at
            self._claimed.clear()
        if name in self._claimed:
            return False
        self._claimed.add(name)
        return True

    def name_suffix(self, length: int = 5) -> str:
        """Random characters for ``generateName``, five as upstream."""
        return "".join(self.stream("name").choices(NAME_SUFFIX_ALPHABET, k=length))
