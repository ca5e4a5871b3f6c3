"""The commands of ``lbarn``, one a file. Whatever takes time to import is imported when a command runs."""
