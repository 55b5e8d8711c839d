"""The APIs that a broker answers itself, one file each."""
