"""Instruments: what reads numbers off a program or a run, and says where they come from.

Each gives Readings, or raises `UnavailableError` with the reason, which reports print.
"""
