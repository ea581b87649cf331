"""The 100 bits of a watermark: a number, protected by TrustMark's schema BCH_5, which corrects five bits.

The bits are 61 of data, 35 of a BCH code over GF(2^7), and 4 that name the schema. TrustMark's own decoder
reads them. Of the data, 60 bits are the number and the last one, 0, is this payload's version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from itertools import product

ALGORITHM = "com.adobe.trustmark.P"
"""The watermark's name on C2PA's list of soft bindings."""
NUMBER_BITS, DATA, PARITY, SCHEMA = 60, 61, 35, (0, 0, 0, 1)
BITS = DATA + PARITY + len(SCHEMA)
HEX_DIGITS = NUMBER_BITS // 4
PADDING = 3  # the reference encodes whole bytes of data
ERRORS = 5  # as many are corrected
DOUBTFUL = 6  # bits that are tried both ways
FIELD, MODULUS, ORDER = 7, 0b10001001, 127  # of GF(2^7)
LENGTH = DATA + PADDING + PARITY


def number_of(file: bytes) -> int:
    """Return the number of a kept picture: the first bits of the sha256 by which it is kept.

    It needs no row of its own, says nothing of a person or a job, and is the same whenever the file leaves.
    """
    return int(hashlib.sha256(file).hexdigest()[:HEX_DIGITS], 16)


def digits_of(number: int) -> str:
    """Return the hexadecimal digits with which the sha256 of a number's picture begins."""
    return f"{number:0{HEX_DIGITS}x}"


def binding_of(number: int) -> str:
    """Return the value of a C2PA soft binding: the schema and the data, in TrustMark's form."""
    return "1*" + "".join(map(str, bits_of(number)[:DATA]))


def bits_of(number: int) -> list[int]:
    """Return the bits of a number below 2^60."""
    data = number << 1 << PADDING
    remainder = data << PARITY
    for place in range(LENGTH - 1, PARITY - 1, -1):
        if remainder >> place & 1:
            remainder ^= _generator() << place - PARITY
    return [*_digits(data >> PADDING, DATA), *_digits(remainder, PARITY), *SCHEMA]


def number_in(found: Sequence[float]) -> int | None:
    """Return the number in 100 values, each over 0 for a bit that is 1; None without any.

    Five wrong bits are corrected, and more if some of them are among the values nearest to 0. Each of those
    is taken for 0 and for 1, and the likeliest number is returned (Chase 1972). The four bits of the schema,
    which no code protects, are not looked at.
    """
    bits = [int(value > 0) for value in found[: DATA + PARITY]]
    doubtful = sorted(range(len(bits)), key=lambda place: abs(found[place]))[:DOUBTFUL]
    against: dict[int, float] = {}  # by number: how much the values say against it
    for taken in product((0, 1), repeat=DOUBTFUL):
        tried = list(bits)
        for place, bit in zip(doubtful, taken, strict=True):
            tried[place] = bit
        if (number := _corrected(tried)) is not None and number not in against:
            wrong = (place for place, bit in enumerate(bits_of(number)[: len(bits)]) if bit != bits[place])
            against[number] = sum(abs(found[place]) for place in wrong)
    return min(against, key=against.__getitem__, default=None)


def _corrected(bits: Sequence[int]) -> int | None:
    """Return the number of 96 bits with at most five wrong ones; None for others."""
    word = 0
    for bit in (*bits[:DATA], *(0,) * PADDING, *bits[DATA:]):
        word = word << 1 | bit
    places = _wrong_places(word)
    if places is None:
        return None
    for place in places:
        word ^= 1 << place
    data = word >> PARITY
    number, version = data >> PADDING + 1, data >> PADDING & 1
    return number if not version and not data & (1 << PADDING) - 1 else None


def _digits(value: int, count: int) -> list[int]:
    return [value >> place & 1 for place in reversed(range(count))]


@cache
def _powers() -> list[int]:
    """Return the powers of the field's generator, twice, so that sums of two logarithms are places."""
    powers = [1]
    while len(powers) < ORDER:
        double = powers[-1] << 1
        powers.append(double ^ MODULUS if double >> FIELD else double)
    return powers * 2


@cache
def _logarithms() -> dict[int, int]:
    return {power: place for place, power in enumerate(_powers()[:ORDER])}


def _times(a: int, b: int) -> int:
    return _powers()[_logarithms()[a] + _logarithms()[b]] if a and b else 0


def _over(a: int, b: int) -> int:
    return _powers()[_logarithms()[a] + ORDER - _logarithms()[b]] if a else 0


@cache
def _generator() -> int:
    """Return the code's generator polynomial: its roots are the first ten powers, and their conjugates."""
    roots = {(2 * power + 1) * 2**turn % ORDER for power in range(ERRORS) for turn in range(FIELD)}
    product = [1]  # from the constant on
    for root in roots:
        shifted = [0, *product]
        product = [a ^ _times(b, _powers()[root]) for a, b in zip(shifted, [*product, 0], strict=True)]
    return sum(coefficient << place for place, coefficient in enumerate(product))


def _wrong_places(word: int) -> list[int] | None:
    """Return which bits of a word are wrong, from the last on; None if more than five are.

    The algorithm of Berlekamp and Massey finds the shortest recurrence of the syndromes. Its polynomial has
    the inverses of the wrong places' powers as roots.
    """
    ones = [place for place in range(LENGTH) if word >> place & 1]
    syndromes = [_sum_of_powers(ones, power) for power in range(1, 2 * ERRORS + 1)]
    locator, before, length, gap, last = [1], [1], 0, 1, 1
    for step, syndrome in enumerate(syndromes):
        difference = syndrome
        for place in range(1, min(length, len(locator) - 1) + 1):
            difference ^= _times(locator[place], syndromes[step - place])
        if not difference:
            gap += 1
            continue
        factor = _over(difference, last)
        correction = [0] * gap + [_times(factor, each) for each in before]
        size = max(len(locator), len(correction))
        padded = locator + [0] * (size - len(locator))
        new = [a ^ b for a, b in zip(padded, correction + [0] * (size - len(correction)), strict=True)]
        if 2 * length <= step:
            before, length, last, gap = locator, step + 1 - length, difference, 1
        else:
            gap += 1
        locator = new
    if length > ERRORS:
        return None
    places = [place for place in range(LENGTH) if not _value(locator, -place % ORDER)]
    return places if len(places) == length else None


def _sum_of_powers(places: Sequence[int], power: int) -> int:
    total = 0
    for place in places:
        total ^= _powers()[place * power % ORDER]
    return total


def _value(polynomial: Sequence[int], power: int) -> int:
    """Return the value of a polynomial at a power of the field's generator."""
    total = 0
    for place, coefficient in enumerate(polynomial):
        total ^= _times(coefficient, _powers()[place * power % ORDER])
    return total
