"""What befalls a simulated cluster: drawn, aimed, told by an operator, over many hours."""
