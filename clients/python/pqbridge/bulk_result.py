"""What came of an operation on many items."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class BulkResult:
    """What a bulk operation did."""

    done: int = 0
    """How many items were changed."""
    looked: int = 0
    at_least: bool = False
    """A page had no answer and was repeated, so more items may have been changed than done says."""
    full: bool = False
    """The queue that the items go to has no room for the next one."""
    next: str = ""
    """Where a further run goes on; "": this one came to its end."""
