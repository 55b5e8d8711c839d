#!/bin/sh
# As kafka-features.sh of Kafka.
exec kafka-java org.apache.kafka.tools.FeatureCommand "$@"
