"""The same calls by six kinds of clients on our broker and controller and on Kafka's, compared."""
