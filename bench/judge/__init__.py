"""What compares the two stores from outside, with code of its own."""
