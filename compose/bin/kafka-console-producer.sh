#!/bin/sh
# As kafka-console-producer.sh of Kafka.
exec kafka-java org.apache.kafka.tools.ConsoleProducer "$@"
