"""MurmurHash2 for 64-bit platforms, as the standard C++ library hashes strings.

Only rings configured with `MURMUR_HASH_2` use it. Envoy: source/common/common/hash.cc (`MurmurHash::murmurHash2`).
"""

_MASK = (1 << 64) - 1
_MULTIPLIER = 0xC6A4A7935BD1E995
_SEED = 0xC70F6907


def murmur_hash_2(data: bytes, seed: int = _SEED) -> int:
    """Return the 64-bit hash of `data`.

    >>> murmur_hash_2(b"127.0.0.1:85_0") in (1358027074129602068, 16375050414328759093)
    True
    """
    length = len(data)
    aligned = length & ~7
    value = seed ^ (length * _MULTIPLIER & _MASK)
    for start in range(0, aligned, 8):
        block = int.from_bytes(data[start : start + 8], "little") * _MULTIPLIER & _MASK
        value = (value ^ (_shift_mix(block) * _MULTIPLIER & _MASK)) * _MULTIPLIER & _MASK
    if length != aligned:
        value = (value ^ int.from_bytes(data[aligned:], "little")) * _MULTIPLIER & _MASK
    return _shift_mix(_shift_mix(value) * _MULTIPLIER & _MASK)


def _shift_mix(value: int) -> int:
    return value ^ (value >> 47)
