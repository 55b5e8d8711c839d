"""What runs inside the containers of ``compose/``, and the run of both stories.

A container of a broker or a controller stays; the server in it is restarted with other properties
when a step asks for that, as an operator restarts the process of a machine.
"""
