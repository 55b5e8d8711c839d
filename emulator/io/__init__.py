"""The only package with asyncio, sockets, files and clocks: performs effects, never decides."""
