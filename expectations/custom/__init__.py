"""Expectations of our own, one idea per file. Each says which rows break it, so that a verdict can name them."""
