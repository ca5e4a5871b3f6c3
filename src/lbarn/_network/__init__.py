"""The trained network: what it says of rows, and its file."""
