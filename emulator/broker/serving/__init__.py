"""What a broker answers clients with: requests by kind, in parts, forwarded."""
