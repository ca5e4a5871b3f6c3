"""Tables of any library, and tables in files."""
