"""Facts of bounded output: both ends are kept, whole characters only, and what is missing is said."""

from holdfast.leaf.text.tail import BoundedOutput


def tail(cap: int, *pieces: bytes) -> BoundedOutput:
    kept = BoundedOutput(cap)
    for piece in pieces:
        kept.add(piece)
    return kept


def test_what_fits_is_kept_as_it_is_wherever_it_was_parted() -> None:
    euro = "€".encode()
    assert tail(6, *(bytes([byte]) for byte in euro * 2)).text() == "€€"


def test_of_what_does_not_fit_both_ends_are_kept() -> None:
    kept = tail(8, b"abcdefgh", b"ijkl")
    assert kept.text() == "abcd\n[… 4 bytes left out …]\nijkl"
    assert kept.dropped_bytes == 4


def test_no_character_is_cut_in_two() -> None:
    assert tail(8, "€".encode() * 10).text() == "€\n[… 22 bytes left out …]\n€"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert tail(8, b"\xff\x80").text() == "\N{REPLACEMENT CHARACTER}" * 2
