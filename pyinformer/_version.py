"""The version, for parts that show it: reading it from the installed files takes 50 ms."""

__version__ = "0.1.0.dev0"
