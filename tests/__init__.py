"""Tests, laid out like the source they test."""
