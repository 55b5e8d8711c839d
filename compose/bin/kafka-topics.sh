#!/bin/sh
# As kafka-topics.sh of Kafka.
exec kafka-java org.apache.kafka.tools.TopicCommand "$@"
