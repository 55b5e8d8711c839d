"""Measurements of one thing each, beside the scenarios of ``kraft-bridge bench run``."""
