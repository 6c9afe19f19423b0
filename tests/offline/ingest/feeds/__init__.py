"""Tests of what comes in night after night."""
