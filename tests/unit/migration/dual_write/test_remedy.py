"""What an operator is told to do about a znode, for each subtree."""

from __future__ import annotations

import pytest

from emulator.migration.dual_write.poison import SKIP, TRIES, TRIES_SKIPPED, remedy


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/brokers/topics/orders", "topic orders"),
        ("/brokers/topics/orders/partitions/0/state", "topic orders"),
        ("/config/topics/orders", "config of topic orders"),
        ("/config/brokers/7", "config of broker 7"),
        ("/config/brokers/<default>", "config of broker <default>"),
        ("/config/users/alice", "quotas and SCRAM credentials of user alice"),
        ("/config/users/alice/clients/app", "quotas and SCRAM credentials of user alice"),
        ("/config/clients/app", "quotas of client id app"),
        ("/config/ips/10.0.0.1", "quotas of ip 10.0.0.1"),
        ("/kafka-acl/Topic/orders", "access control entries of resource orders"),
        ("/kafka-acl-extended/prefixed/Group/or", "access control entries of resource or"),
        ("/delegation_token/tokens/one", "delegation token one"),
        ("/latest_producer_id_block", "/latest_producer_id_block"),
    ],
)
def test_what_the_znode_holds_is_named(path: str, what: str) -> None:
    text = f"delete what the znode holds ({what}): deletions are still accepted"
    assert remedy(path, forbidden=False, skippable=False) == text
    assert remedy(path, forbidden=False, skippable=True) == f"{text}; {SKIP}"


@pytest.mark.parametrize(("skipped", "then"), [(False, TRIES), (True, TRIES_SKIPPED)])
def test_a_missing_right_is_named_with_when_it_is_tried_again(skipped: bool, then: str) -> None:
    text = f"give the controller the permission that it lacks; {then}"
    assert remedy("/config/ips/a", forbidden=True, skippable=False, skipped=skipped) == text
