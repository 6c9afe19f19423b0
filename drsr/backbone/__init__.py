"""The frozen language models that DRSR reads with. Importing this needs numpy alone; loading a model needs more."""

from drsr.backbone.catalogue import BackboneEntry, list_backbones, load_backbone, load_tokenizer

__all__ = ["BackboneEntry", "list_backbones", "load_backbone", "load_tokenizer"]
