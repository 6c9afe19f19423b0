"""Byte-level BPE in plain Python, for token counts without the package `tokenizers`.

`ByteLevelTokenizer` reads the tokenizer.json of SmolLM2 and of others of its form, and gives the ids that the library
gives. `other_form` says why a file is not of that form.
"""

from drsr.backbone.byte_level.tokenizer import ByteLevelTokenizer, other_form

__all__ = ["ByteLevelTokenizer", "other_form"]
