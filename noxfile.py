"""Placeholder until every verb exists."""
