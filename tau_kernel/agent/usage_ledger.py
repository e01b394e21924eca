"""What completions cost: the newest one, and those beside the conversation."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from tau_kernel.messages import USAGE_FIELDS, UsageDict

__all__ = ["UsageLedger"]


class UsageLedger:
    """Keeps the newest completion's usage and a sum of all side completions."""

    def __init__(self) -> None:
        """Start before the first completion."""
        self._latest: UsageDict | None = None
        self._side = dict.fromkeys(USAGE_FIELDS, 0)

    @property
    def latest(self) -> UsageDict | None:
        """A deep copy of the newest completion's usage; None before the first."""
        return copy.deepcopy(self._latest)

    @property
    def side(self) -> dict[str, int]:
        """A copy of the tokens spent outside the loop; it only ever grows."""
        return dict(self._side)

    def record(self, usage: UsageDict) -> None:
        """Note what a completion of the loop cost."""
        self._latest = copy.deepcopy(usage)

    def record_side(self, usage: Mapping[str, int]) -> None:
        """Add what a completion outside the loop cost."""
        for field in USAGE_FIELDS:
            self._side[field] += usage.get(field, 0)

    def side_since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Give what was added since `before`, an earlier `side`."""
        return {field: self._side[field] - before[field] for field in USAGE_FIELDS}
