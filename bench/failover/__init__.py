"""A quorum of three controllers loses its leader: how long until a change is carried out again."""
