"""Tests of the consumer's commands."""
