#!/bin/sh
# As kafka-console-consumer.sh of Kafka.
exec kafka-java org.apache.kafka.tools.consumer.ConsoleConsumer "$@"
