"""The controller's request path: CPU per request, latency, long steps, memory, time to start."""
