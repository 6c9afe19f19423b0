"""Tests of drsr/backbone."""
