from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_kernel.messages import cut_middle, estimated_tokens, text_pieces

texts = st.text(
    st.one_of(st.just("\n"), st.characters(codec="utf-8"), st.sampled_from("ab日ж")),
    max_size=2000,
)


@settings(deadline=None)
@given(texts, st.integers(32, 200))
def test_a_text_in_pieces_is_the_whole_text(text: str, tokens: int) -> None:
    pieces = text_pieces(text, tokens, at_most=1000)
    assert "".join(pieces) == text
    assert all(estimated_tokens(piece) <= tokens for piece in pieces)


@settings(deadline=None)
@given(texts, st.integers(32, 64), st.integers(1, 4))
def test_there_are_never_more_pieces_than_allowed(
    text: str, tokens: int, at_most: int
) -> None:
    pieces = text_pieces(text * 4, tokens, at_most=at_most)
    assert len(pieces) <= at_most
    assert all(estimated_tokens(piece) <= tokens for piece in pieces)


@settings(deadline=None)
@given(texts, st.integers(32, 200))
def test_a_cut_text_keeps_its_ends_and_fits(text: str, tokens: int) -> None:
    cut = cut_middle(text, tokens)
    assert estimated_tokens(cut) <= tokens
    if cut != text:
        head, _, rest = cut.partition("\n[… ")
        tail = rest.partition(" …]\n")[2]
        assert text.startswith(head)
        assert text.endswith(tail)


def test_the_cut_says_how_much_is_missing() -> None:
    cut = cut_middle("x" * 10_000, 100)
    left_out = 10_000 - cut.count("x")
    # The word "characters" has no x.
    assert f"[… {left_out:,} characters left out …]" in cut


def test_pieces_end_where_lines_end() -> None:
    text = "".join(f"line {n:04}\n" for n in range(100))
    pieces = text_pieces(text, 50, at_most=100)
    assert len(pieces) > 1
    assert all(piece.endswith("\n") for piece in pieces)


@pytest.mark.parametrize("text", ["", "short"])
def test_a_text_that_fits_is_one_piece(text: str) -> None:
    assert text_pieces(text, 32, at_most=8) == [text]
