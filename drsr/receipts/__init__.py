"""Receipts: one record per decision, with its reasons, and the file that keeps them."""
