"""Micro benchmarks of the stations an object passes, for people who change them."""
