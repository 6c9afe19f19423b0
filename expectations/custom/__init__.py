"""The project's own expectations, one idea per file. Each says which rows break it, so that a verdict can name them."""
