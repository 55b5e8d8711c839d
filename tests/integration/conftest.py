"""One migration of real brokers for every test that looks at one."""

from __future__ import annotations

import pytest

from tests.integration.migrated import tell, wired


@pytest.fixture(scope="session")
def story(shared_brokers, tmp_path_factory):
    """The whole of it; the servers have ended but for ZooKeeper, whose tree is as it was left."""
    folder = tmp_path_factory.mktemp("migrated")
    cluster = shared_brokers(start=False)
    with wired(cluster, folder) as found:
        tell(found, folder)
        yield found
