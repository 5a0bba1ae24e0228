"""The only maker of random generators: (purpose, seed) -> generator."""

import hashlib

import numpy as np


def derive(purpose: str, seed: int) -> int:
    """A 63-bit integer for this purpose and seed; what torch is seeded with.

    >>> derive("dropout", 0) == derive("dropout", 0) != derive("shuffle", 0)
    True
    """
    digest = hashlib.blake2b(f"{purpose}\0{seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(purpose: str, seed: int) -> np.random.Generator:
    """A numpy generator whose stream depends on nothing but purpose and seed."""
    return np.random.default_rng(derive(purpose, seed))
