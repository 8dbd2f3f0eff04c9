"""Imported as a whole by image processors; never called here."""
