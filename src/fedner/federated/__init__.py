"""Federated training: messages, platforms, aggregation, algorithms and the round loop."""
