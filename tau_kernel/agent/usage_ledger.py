"""What completions cost: the newest one, those beside the conversation, and all."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from tau_kernel.messages import USAGE_FIELDS, UsageDict
from tau_kernel.models import Model

from .limits import OwnAccount, Spending

__all__ = ["SideAccount", "UsageLedger"]


class UsageLedger:
    """Keeps the newest completion's usage, a sum of side completions, and of all."""

    def __init__(self, spent: Spending | None = None) -> None:
        """Start before the first completion of this process.

        Args:
            spent: What the session spent before that.
        """
        self._latest: UsageDict | None = None
        self._side = dict.fromkeys(USAGE_FIELDS, 0)
        self._account = OwnAccount(spent)

    @property
    def latest(self) -> UsageDict | None:
        """A deep copy of the newest completion's usage; None before the first."""
        return copy.deepcopy(self._latest)

    @property
    def side(self) -> dict[str, int]:
        """A copy of the tokens spent outside the loop; it only ever grows."""
        return dict(self._side)

    @property
    def spending(self) -> Spending:
        """What the session spent, the side completions included."""
        return self._account.spending

    def record(self, usage: UsageDict, model: Model) -> None:
        """Note what a completion of the loop cost."""
        self._latest = copy.deepcopy(usage)
        self._account.record(usage, model)

    def record_side(
        self, usage: UsageDict | Mapping[str, int], model: Model | None = None
    ) -> None:
        """Add what a completion outside the loop cost.

        Args:
            usage: Its counters; the others count as zero.
            model: Who was asked; None where the price does not matter.
        """
        for field in USAGE_FIELDS:
            count = usage.get(field, 0)
            assert isinstance(count, int), "the counters of a usage are whole numbers"
            self._side[field] += count
        self._account.add(usage, model)

    def side_since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Give what was added since `before`, an earlier `side`."""
        return {field: self._side[field] - before[field] for field in USAGE_FIELDS}


class SideAccount:
    """The ledger as a branch sees it: all that it spends is beside the main line."""

    def __init__(self, ledger: UsageLedger) -> None:
        """Add to `ledger`."""
        self._ledger = ledger

    @property
    def spending(self) -> Spending:
        """What the whole session spent."""
        return self._ledger.spending

    def record(self, usage: UsageDict, model: Model) -> None:
        """Note what a completion of the branch cost."""
        self._ledger.record_side(usage, model)
