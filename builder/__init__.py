"""Turns a recipe into verified wheels for the DGX Spark (see ARCHITECTURE.md)."""

__version__ = "0.1.0"
