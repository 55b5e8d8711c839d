"""A judge of Kafka servers over the wire: cases as pure programs, and what runs them.

``case.py`` says what a case is and what it may ask for, ``cases/`` has the programs, ``asking.py``
what several of them do. ``connection.py`` and ``runner.py`` do the I/O; ``output.py`` shows it.
"""
