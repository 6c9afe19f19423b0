"""Matrices of a language model held in another number format than the rest of it.

int8    whole numbers of 8 bits: quicker features, other numbers, another identity
mixed   16 bits, between activations that stay in 32: for measuring harm on a GPU
"""
