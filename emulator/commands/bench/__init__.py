"""``kraft-bridge bench``: scenarios on several controllers, and runs beside each other."""
