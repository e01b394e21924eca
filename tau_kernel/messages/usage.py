"""What a completion cost, in tokens and money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, TypeAlias, TypedDict, cast

__all__ = [
    "USAGE_FIELDS",
    "JsonObject",
    "JsonValue",
    "Usage",
    "UsageDict",
    "sum_usage",
    "zero_usage",
]

JsonValue: TypeAlias = (
    "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
)
JsonObject: TypeAlias = dict[str, JsonValue]

#: The counters of a usage record, in the order they are shown. All are tokens.
USAGE_FIELDS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "total_tokens",
)


class UsageDict(TypedDict):
    """A usage record as it stands in a message: five counters and two objects."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    total_tokens: int
    cost: dict[str, float]
    extra: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one completion.

    Args:
        input_tokens: Tokens of the request that were not read from a cache.
        output_tokens: Tokens that the model produced, thinking included.
        cache_read_tokens: Tokens of the request served from the provider's cache.
        cache_write_tokens: Tokens that the provider stored in its cache.
        total_tokens: What the provider counts as the whole.
        cost: US dollars by kind (``"total"`` if only that is known); may be empty.
        extra: What else the provider reported, as JSON.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    cost: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, JsonValue] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, record: UsageDict) -> Usage:
        """Build a value from the record that a message carries."""
        return cls(**record)

    def to_dict(self) -> UsageDict:
        """Give the record that a message carries, sharing nothing with this value."""
        return cast("UsageDict", asdict(self))


def zero_usage() -> UsageDict:
    """Give a fresh usage record that counts nothing."""
    return Usage().to_dict()


def sum_usage(usages: Iterable[UsageDict | None]) -> UsageDict:
    """Add up what several completions cost; None stands for one that did not say.

    What providers reported besides is kept where only one of them did, since it does
    not add up.
    """
    known = [usage for usage in usages if usage is not None]
    total = zero_usage()
    for usage in known:
        total["input_tokens"] += usage["input_tokens"]
        total["output_tokens"] += usage["output_tokens"]
        total["cache_read_tokens"] += usage["cache_read_tokens"]
        total["cache_write_tokens"] += usage["cache_write_tokens"]
        total["total_tokens"] += usage["total_tokens"]
        for kind, dollars in usage["cost"].items():
            total["cost"][kind] = total["cost"].get(kind, 0.0) + dollars
    if len(known) == 1:
        total["extra"] = dict(known[0]["extra"])
    return total
