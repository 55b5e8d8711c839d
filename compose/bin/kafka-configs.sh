#!/bin/sh
# As kafka-configs.sh of Kafka.
exec kafka-java kafka.admin.ConfigCommand "$@"
