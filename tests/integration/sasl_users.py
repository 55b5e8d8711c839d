"""Users of a secured cluster: Kafka's own tools, librdkafka and aiokafka, logged in over SASL."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin

from emulator.servers.cluster import KafkaCluster
from emulator.servers.kafka import USERS
from emulator.servers.ports import HOST
from emulator.servers.tool_host import Printed, ToolHost
from wire.errors import ErrorCode

confluent: Any = confluent_kafka.admin
ACLS, CONFIGS = "kafka.admin.AclCommand", "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
ELECTIONS = "org.apache.kafka.tools.LeaderElectionCommand"


@dataclass(kw_only=True)
class Users:
    """Each by its login; ``token`` is whoever bears the last delegation token."""

    cluster: KafkaCluster
    host: ToolHost
    folder: Path
    passwords: dict[str, tuple[str, str]] = field(default_factory=dict)
    """SCRAM user -> (mechanism, password) that must work now."""
    bearer: dict[str, str] = field(default_factory=dict)
    """Id and HMAC of a delegation token."""

    # ------------------------------------------------------------- Kafka's tools
    def tool(self, main: str, *arguments: str, broker: int = 0, user: str = "admin") -> Printed:
        """Run a tool against a broker's SASL listener."""
        option = "--admin.config" if main == ELECTIONS else "--command-config"
        login = (option, str(self._login_file(user)))
        return self.host.run(main, "--bootstrap-server", self.sasl(broker), *login, *arguments)

    def done(self, main: str, *arguments: str, **options: Any) -> str:
        """The same; what it printed, and an error if it did not succeed."""
        printed = self.tool(main, *arguments, **options)
        if printed.code or "Error" in printed.out or "Exception" in printed.err:
            raise RuntimeError(f"{main} {arguments}: {printed}")
        return printed.out

    def _login_file(self, user: str) -> Path:
        mechanism, password = self.login(user)
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        token = "" if user != "token" else "tokenauth=true"
        name = self.bearer["id"] if user == "token" else user
        path = self.folder / f"{user}.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{name}" password="{password}" {token};\n'
            "request.timeout.ms=10000\ndefault.api.timeout.ms=20000\n"
        )
        return path

    def login(self, user: str) -> tuple[str, str]:
        """Mechanism and password; ``token`` is the last one that was made."""
        if user == "token":
            return "SCRAM-SHA-256", self.bearer["hmac"]
        return ("PLAIN", USERS[user]) if user in USERS else self.passwords[user]

    def sasl(self, broker: int) -> str:
        """``host:port`` of a broker's SASL listener."""
        return f"{HOST}:{self.cluster.brokers[broker].sasl_port}"

    def login_of(self, user: str) -> tuple[str, str, str]:
        """Mechanism, user and password."""
        mechanism, password = self.login(user)
        return mechanism, user, password

    # ------------------------------------------------------------- other libraries
    def client(self, user: str, broker: int = 0) -> dict[str, Any]:
        """Settings of librdkafka."""
        mechanism, password = self.login(user)
        return {
            "bootstrap.servers": self.sasl(broker),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }

    def produce(self, user: str, topic: str, size: int = 10, broker: int = 0) -> str:
        """Produce one record by librdkafka: ``""``, or the name of the error."""
        told: list[Any] = []
        settings = self.client(user, broker) | {"message.timeout.ms": 10_000}
        producer = confluent_kafka.Producer(settings)
        producer.produce(topic, b"x" * size, callback=lambda error, _message: told.append(error))
        producer.flush(20)
        return named(told[0]) if told else "nothing"

    def throttled_ms(self, user: str, topic: str) -> int:
        """How long the broker tells librdkafka to wait, at most, when it produces."""
        told: list[float] = []
        settings = self.client(user)
        settings["throttle_cb"] = lambda event: told.append(event.throttle_time)
        producer = confluent_kafka.Producer(settings)
        for _ in range(20):
            producer.produce(topic, b"x" * 1_000)
            producer.poll(0.05)
            if told:
                break
        producer.purge()
        return int(max(told, default=0) * 1_000)

    def consume(self, user: str, topic: str, broker: int = 0) -> str:
        """Read the first record by librdkafka: ``""``, or the name of the error."""
        consumer = confluent_kafka.Consumer(
            self.client(user, broker) | {"group.id": "readers", "enable.auto.commit": False}
        )
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        try:
            message = consumer.poll(15)
            if message is None:
                return "nothing"
            return named(message.error())
        finally:
            consumer.close()

    def produce_aio(self, user: str, topic: str) -> str:
        """Produce one record by aiokafka: ``""``, or the name of the error."""

        async def send() -> None:
            mechanism, password = self.login(user)
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.sasl(0),
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username=user,
                sasl_plain_password=password,
                request_timeout_ms=10_000,
            )
            await producer.start()
            try:
                await producer.send_and_wait(topic, b"x")
            finally:
                await producer.stop()

        try:
            asyncio.run(send())
        except aiokafka.errors.KafkaError as error:
            return type(error).__name__
        return ""

    def admin(self, user: str, broker: int = 1) -> Any:
        """librdkafka's admin client."""
        return confluent.AdminClient(self.client(user, broker))


def named(error: Any) -> str:
    """An error of librdkafka by Kafka's name, or by its own text; "" for None."""
    if error is None:
        return ""
    return ErrorCode(error.code()).name if error.code() > 0 else str(error)
