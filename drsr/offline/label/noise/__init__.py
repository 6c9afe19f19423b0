"""The part of a labeler's harms that is rounding: measured before it labels, and recorded with it.

floor.noise_floor(...)      the same harms in float32, in the labeler's precision, and in another order
settling.settled(...)       what a labeler in half precision must know before its first label
"""
