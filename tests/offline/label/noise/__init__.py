"""Tests of drsr/offline/label/noise."""
