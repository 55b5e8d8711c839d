"""``kraft-bridge plan``: what a migration would copy from a dumped tree."""
