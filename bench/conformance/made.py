"""What a run made on the server, taken from the requests that it sent; and how it is removed.

Only what begins with the run's prefix is ever named. What can be listed is listed too, so that
``--clean PREFIX`` finds what a killed run has left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from bench.conformance.case import Ask, Facts, Program, Where
from wire import messages as m

_ANY: Final = 1
_TIMEOUT_MS: Final = 20_000
Entity = tuple[tuple[str, str], ...]
"""(type, name) of each part of a quota's entity."""


@dataclass(slots=True)
class Made:
    """Names that may exist on the server."""

    prefix: str
    topics: set[str] = field(default_factory=set)
    users: set[tuple[str, int]] = field(default_factory=set)
    quotas: dict[Entity, set[str]] = field(default_factory=dict)
    acls: bool = False
    registered: set[int] = field(default_factory=set)
    sent: bool = False
    """Whether any request was sent."""

    def note(self, request: Any) -> None:
        """Look at a request that is about to be sent."""
        self.sent = True
        match request:
            case m.CreateTopicsRequest(validate_only=False):
                self.topics |= {one.name for one in request.topics if self._ours(one.name)}
            case m.AlterUserScramCredentialsRequest():
                self.users |= {
                    (one.name, one.mechanism) for one in request.upsertions if self._ours(one.name)
                }
            case m.AlterClientQuotasRequest(validate_only=False):
                for entry in request.entries:
                    self._quota(entry)
            case m.CreateAclsRequest():
                self.acls = True
            case m.BrokerRegistrationRequest():
                self.registered.add(request.broker_id)
            case _:
                pass

    def _ours(self, name: str | None) -> bool:
        return name is not None and name.startswith(self.prefix)

    def _quota(self, entry: Any) -> None:
        parts = tuple((one.entity_type, one.entity_name) for one in entry.entity)
        if any(self._ours(name) for _, name in parts):
            keys = self.quotas.setdefault(tuple((kind, name or "") for kind, name in parts), set())
            keys |= {one.key for one in entry.ops}

    # ---------------------------------------------------------------- removal, as programs
    def removal(self, facts: Facts) -> Program:
        """Remove it all; returns sentences about what is left."""
        left: list[str] = []
        for where in facts.ranges:
            for step in (self._topics, self._users, self._quotas, self._acls, self._brokers):
                left += yield from step(facts, where)
            if where is Where.BROKER:
                break
        if Where.BROKER in facts.ranges and Where.CONTROLLER in facts.ranges:
            left += yield from self._brokers(facts, Where.CONTROLLER)
        return left

    def _topics(self, facts: Facts, at: Where) -> Program:
        if not facts.offers(at, m.CreateTopicsRequest):
            return []  # nothing can have been made
        if facts.offers(at, m.MetadataRequest):
            asked = m.MetadataRequest(topics=None, allow_auto_topic_creation=False)
            answer = (yield Ask(asked, lowest=1, at=at)).message
            self.topics |= {one.name for one in answer.topics if self._ours(one.name)}
        if not self.topics or not facts.offers(at, m.DeleteTopicsRequest):
            return []
        names = sorted(self.topics)
        state = m.DeleteTopicsRequest.DeleteTopicState
        asked_too = m.DeleteTopicsRequest(
            topics=[state(name=one) for one in names], topic_names=names, timeout_ms=_TIMEOUT_MS
        )
        versions = facts.offers(at, m.DeleteTopicsRequest)
        assert versions is not None
        asked_too = _of_version(asked_too, versions[1])
        answer = (yield Ask(asked_too, versions[1], at=at)).message
        gone = {0, 3}
        left = [one.name for one in answer.responses if one.error_code not in gone]
        self.topics = set(left)
        return [f"topic {one}" for one in left]

    def _users(self, facts: Facts, at: Where) -> Program:
        if not facts.offers(at, m.AlterUserScramCredentialsRequest):
            return []
        if at is Where.BROKER and facts.offers(at, m.DescribeUserScramCredentialsRequest):
            told = (yield Ask(m.DescribeUserScramCredentialsRequest(users=None), at=at)).message
            self.users |= {
                (one.user, info.mechanism)
                for one in told.results
                if self._ours(one.user)
                for info in one.credential_infos
            }
        if not self.users:
            return []
        kind = m.AlterUserScramCredentialsRequest
        left = []
        for name, mechanism in sorted(self.users):
            # One each: a request with an unknown mechanism or user twice is refused for that user.
            removal = kind.ScramCredentialDeletion(name=name, mechanism=mechanism)
            answer = (yield Ask(kind(deletions=[removal]), at=at)).message
            left += [one.user for one in answer.results if one.error_code not in {0, 33, 91, 93}]
        self.users.clear()
        return [f"SCRAM credential of {one}" for one in left]

    def _quotas(self, facts: Facts, at: Where) -> Program:
        if facts.offers(at, m.DescribeClientQuotasRequest):
            told = (yield Ask(m.DescribeClientQuotasRequest(), at=at)).message
            for entry in told.entries or []:
                parts = tuple((one.entity_type, one.entity_name or "") for one in entry.entity)
                if any(self._ours(name) for _, name in parts):
                    self.quotas.setdefault(parts, set()).update(one.key for one in entry.values)
        if not self.quotas or not facts.offers(at, m.AlterClientQuotasRequest):
            return []
        kind = m.AlterClientQuotasRequest
        for parts, keys in sorted(self.quotas.items()):
            entity = [
                kind.EntityData(entity_type=one, entity_name=name or None) for one, name in parts
            ]
            for key in sorted(keys):
                ops = [kind.OpData(key=key, remove=True)]
                # An entity or key that was refused before is refused again: there is nothing.
                yield Ask(kind(entries=[kind.EntryData(entity=entity, ops=ops)]), at=at)
        self.quotas.clear()
        return []

    def _acls(self, facts: Facts, at: Where) -> Program:
        if not facts.offers(at, m.DescribeAclsRequest) or not facts.offers(at, m.DeleteAclsRequest):
            return []
        filters: dict[str, Any] = {
            "resource_type_filter": _ANY,
            "resource_name_filter": None,
            "pattern_type_filter": _ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": _ANY,
            "permission_type": _ANY,
        }
        told = (yield Ask(m.DescribeAclsRequest(**filters), lowest=1, at=at)).message
        mine = [
            (resource, acl)
            for resource in told.resources
            for acl in resource.acls
            if self._ours(resource.resource_name) or self._ours(acl.principal.partition(":")[2])
        ]
        kind = m.DeleteAclsRequest.DeleteAclsFilter
        wanted = [
            kind(
                resource_type_filter=resource.resource_type,
                resource_name_filter=resource.resource_name,
                pattern_type_filter=resource.pattern_type,
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for resource, acl in mine
        ]
        if not wanted:
            return []
        answer = (yield Ask(m.DeleteAclsRequest(filters=wanted), lowest=1, at=at)).message
        failed = sum(1 for one in answer.filter_results if one.error_code)
        return [f"{failed} access control entries"] if failed else []

    def _brokers(self, facts: Facts, at: Where) -> Program:
        left = []
        if facts.offers(at, m.UnregisterBrokerRequest):
            for one in sorted(self.registered):
                answer = (yield Ask(m.UnregisterBrokerRequest(broker_id=one), at=at)).message
                if answer.error_code in {0, 102}:
                    self.registered.discard(one)
                else:
                    left.append(f"broker {one}")
        return left


def _of_version(request: Any, version: int) -> Any:
    """A DeleteTopics request with the list that its version has."""
    if version >= 6:
        request.topic_names = ()
    else:
        request.topics = []
    return request
