"""Tests of drsr/backbone/matrices."""
