"""Requests of an admin at the edges of size and alphabet: what fits a request may fit no znode."""

from __future__ import annotations

from random import Random

from wire import messages as m

NAMES_MAX = 32_000
"""Bytes of a text: a string of Kafka's has 32,767 at most, a principal its type before it."""
ALPHABETS = ("x", "\x01", "é", '"\\', "\U0001f600", "/%~*+ ")
"""Of one byte, of six in JSON, of two, escaped, of four, and percent-encoded."""
NAME_ALPHABETS = tuple(text for text in ALPHABETS if text not in {"\x01", "\U0001f600", "/%~*+ "})
"""Of what stands in a path as it is: no '/', nothing that ZooKeeper refuses."""
ANSWERED = {
    m.CreateTopicsRequest: "topics",
    m.CreatePartitionsRequest: "results",
    m.IncrementalAlterConfigsRequest: "responses",
    m.AlterClientQuotasRequest: "entries",
    m.AlterUserScramCredentialsRequest: "results",
    m.CreateAclsRequest: "results",
}


def text(rng: Random, bytes_max: int = NAMES_MAX, alphabets: tuple[str, ...] = ALPHABETS) -> str:
    """A text of one alphabet: short, or nearly as long as it may be."""
    alphabet = rng.choice(alphabets)
    size = rng.choice((3, bytes_max // 3, bytes_max, bytes_max))
    return alphabet * max(size // len(alphabet.encode()), 1)


class EdgeAdmin:
    """Draws one request after the other; a few names only, so that znodes fill up.

    Args:
        rng: decides.
        brokers: ids that are registered; the more there are, the longer an assignment may be.
    """

    def __init__(self, rng: Random, brokers: tuple[int, ...]) -> None:
        self.rng = rng
        self.brokers = brokers
        self.topics: dict[str, int] = {}

    def request(self) -> object:
        """The next one."""
        kinds = (
            self.broker_configs,
            self.topic_configs,
            self.quotas,
            self.credentials,
            self.acls,
            self.create_topic,
            self.more_partitions,
        )
        return self.rng.choice(kinds)()

    def broker_configs(self) -> object:
        """Forty keys of any length; passwords among them, where they can be encoded."""
        kind = m.IncrementalAlterConfigsRequest
        value = text(self.rng)
        configs = [
            kind.AlterableConfig(name=f"custom.{self.rng.randrange(60)}.{n}", value=value)
            for n in range(self.rng.choice((1, 8, 40)))
        ]
        name = self.rng.choice(("", str(self.brokers[0])))
        resource = kind.AlterConfigsResource(resource_type=4, resource_name=name, configs=configs)
        return kind(resources=[resource])

    def topic_configs(self) -> object:
        """The two lists of a topic that may be long."""
        kind = m.IncrementalAlterConfigsRequest
        keys = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
        value = ",".join(["10000:100000"] * self.rng.choice((1, 2_500)))
        configs = [kind.AlterableConfig(name=key, value=value) for key in keys]
        name = self.rng.choice(sorted(self.topics) or ["none"])
        resource = kind.AlterConfigsResource(resource_type=2, resource_name=name, configs=configs)
        return kind(resources=[resource])

    def quotas(self) -> object:
        """Names that become paths."""
        kind = m.AlterClientQuotasRequest
        types = self.rng.choice((("user",), ("client-id",), ("client-id", "user")))
        parts = [
            kind.EntityData(entity_type=one, entity_name=text(self.rng)[:10_000]) for one in types
        ]
        ops = [
            kind.OpData(key="consumer_byte_rate", value=2.0**62),
            kind.OpData(key="request_percentage", value=self.rng.random() * 1e300),
        ]
        return kind(entries=[kind.EntryData(entity=parts, ops=ops)])

    def credentials(self) -> object:
        """Salts that fill a znode."""
        kind = m.AlterUserScramCredentialsRequest
        name = text(self.rng)[:1_000]
        sizes = (10, 200_000, 350_000, 380_000, 380_600, 390_000, 600_000, 1_200_000)
        upsertion = kind.ScramCredentialUpsertion(
            name=name,
            mechanism=self.rng.choice((1, 2)),
            iterations=4096,
            salt=b"s" * self.rng.choice(sizes),
            salted_password=b"p" * 64,
        )
        return kind(upsertions=[upsertion])

    def acls(self) -> object:
        """Many entries of a few resources."""
        kind = m.CreateAclsRequest
        name = self.rng.choice(("t", text(self.rng, 249, NAME_ALPHABETS)))
        pattern = self.rng.choice((3, 4))
        principal = text(self.rng)
        return kind(
            creations=[
                kind.AclCreation(
                    resource_type=2,
                    resource_name=name,
                    resource_pattern_type=pattern,
                    principal=f"User:{self.rng.randrange(10**6)}{principal}",
                    host=self.rng.choice(("*", "10.0.0.1", "\x02" * 50)),
                    operation=3,
                    permission_type=self.rng.choice((2, 3)),
                )
                for _ in range(self.rng.choice((1, 10, 40)))
            ]
        )

    def create_topic(self) -> object:
        """Names as long as can be, as many partitions as one request may have."""
        kind = m.CreateTopicsRequest
        name = f"{len(self.topics)}".rjust(249, self.rng.choice("._-z")) + ""
        replicas = list(self.brokers)
        count = self.rng.choice((1, 100, 1_000))
        self.topics[name] = count
        assignments = [
            kind.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index in range(count)
        ]
        topic = kind.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        return kind(topics=[topic], timeout_ms=30_000)

    def more_partitions(self) -> object:
        """Until the topic's znode is full."""
        kind = m.CreatePartitionsRequest
        if not self.topics:
            return self.create_topic()
        name = self.rng.choice(sorted(self.topics))
        self.topics[name] += self.rng.choice((1, 500, 2_000))
        topic = kind.CreatePartitionsTopic(name=name, count=self.topics[name], assignments=None)
        return kind(topics=[topic], timeout_ms=30_000)


def refusals(request: object, answer: object) -> list[int]:
    """Error codes of an answer, other than NONE."""
    each = getattr(answer, ANSWERED[type(request)])
    return [one.error_code for one in each if one.error_code]
