"""The only place with asyncio, sockets, files and clocks: it performs effects, decides nothing."""
