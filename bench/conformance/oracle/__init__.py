"""Two controllers get the same random histories; what they answer and log is compared.

``grammar`` draws operations, ``side`` carries them out on one controller, ``compare`` finds what
differs, ``known`` excuses what is known, ``shrink`` makes a history short, ``run`` does all of it.
"""
