"""Tests of drsr.features."""
