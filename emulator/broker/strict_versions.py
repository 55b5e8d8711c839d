"""The request versions of KIP-590 that only the controller may take, which no Kafka released.

The KIP raised the version of each changing API by one: a client that knows the new version asks
the controller itself, and any other broker answers NOT_CONTROLLER; older versions are forwarded.
Kafka dropped this before a release; the same numbers are other changes today. With
``kraftbridge.kip590.strict.versions`` they have the KIP's meaning, while a ZooKeeper-mode
controller rules. In KRaft mode clients cannot reach the controller, so every version is forwarded.

Source: KIP-590 "Protocol Bumps".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from emulator.broker.side import BrokerSide
from wire.frame import RequestHeader

FOR_CONTROLLERS_SINCE: Final[Mapping[int, int]] = MappingProxyType(
    {
        30: 3,  # CreateAcls
        31: 3,  # DeleteAcls
        33: 2,  # AlterConfigs
        38: 3,  # CreateDelegationToken
        39: 3,  # RenewDelegationToken: no release has this version
        40: 3,  # ExpireDelegationToken: likewise
        44: 2,  # IncrementalAlterConfigs: likewise
        49: 1,  # AlterClientQuotas
    }
)
"""API key -> the version that the KIP adds."""


def for_the_controller_alone(header: RequestHeader, side: BrokerSide) -> bool:
    """Whether the KIP has this request answered with NOT_CONTROLLER by a broker like this one."""
    since = FOR_CONTROLLERS_SINCE.get(header.api_key)
    if since is None or header.api_version < since or side.mode != "zk":
        return False
    controller = side.controller()
    return controller is None or not controller.kraft
