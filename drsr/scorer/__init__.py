"""The set-risk scorer, which predicts the harm of a deletion set. The same code trains it and decides with it.

    set_representation   candidate embeddings -> 451 numbers for every deletion set
    network              encoder, representation, trunk and heads, for all members of an ensemble at once
    gelu                 the activation without torch
    ensemble             normaliser and members as one `SetScorer`
    weights              the ensemble in one safetensors file

Needs numpy and safetensors only. Training (`drsr.offline.train.fitting`) runs `network.forward` on torch tensors.
"""
