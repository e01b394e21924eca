from __future__ import annotations

from tau_kernel.messages import Usage, sum_usage, zero_usage


def test_the_sum_of_nothing_is_zero() -> None:
    assert sum_usage([None]) == zero_usage()


def test_tokens_and_dollars_add_up() -> None:
    one = Usage(input_tokens=1, output_tokens=2, total_tokens=3, cost={"total": 0.5})
    other = Usage(cache_read_tokens=4, total_tokens=4, cost={"total": 0.25, "x": 1.0})
    summed = sum_usage([one.to_dict(), None, other.to_dict()])
    expected = Usage(
        input_tokens=1,
        output_tokens=2,
        cache_read_tokens=4,
        total_tokens=7,
        cost={"total": 0.75, "x": 1.0},
    )
    assert summed == expected.to_dict()


def test_what_one_provider_said_besides_is_kept() -> None:
    usage = Usage(total_tokens=1, extra={"estimated": True}).to_dict()
    assert sum_usage([usage])["extra"] == {"estimated": True}
    assert sum_usage([usage, usage])["extra"] == {}
