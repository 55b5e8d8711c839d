"""``kraft-bridge fleet``: several hundred brokers in one process, as load for a controller.

Each is the broker of ``kraft-bridge broker``, without files. Registrations, restarts, deaths, rolls
to KRaft mode and ISR changes are due at times that do not depend on how fast the controller is (an
open loop), and every wait counts from when it was due.
"""
