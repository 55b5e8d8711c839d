"""How tests are handed to the workers: as xdist does, without looking at what is done already.

xdist keeps each group that a worker has finished, and counts through all of them whenever a test
ends; with thousands of tests, each a group, the process that hands them out is busy with it.
"""

from __future__ import annotations

from xdist.scheduler.loadgroup import LoadGroupScheduling
from xdist.workermanage import WorkerController


class PendingOnly(LoadGroupScheduling):  # type: ignore[misc]
    """Forgets groups that are done."""

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """A worker has run a test; it gets more when it has little left."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]
