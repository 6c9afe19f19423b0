"""Tests of the wire forms."""
