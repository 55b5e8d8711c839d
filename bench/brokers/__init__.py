"""Our broker beside Kafka's, and fleets of ours on both controllers."""
