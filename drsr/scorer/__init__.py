"""The set-risk scorer, which predicts the harm of a deletion set. The same code trains it and decides with it.

    frozen               what every scorer is: members, scored together, as one `SetScorer`
    set_representation   candidate embeddings -> 451 numbers for every deletion set
    network              encoder, representation, trunk and heads, for all members of an ensemble at once
    gelu                 the activation without torch
    ensemble             the paper's scorer: normaliser and networks
    set_description      candidate features -> sums, extremes and means for every deletion set
    trees, linear        scorers on these descriptions
    stack                the average of others
    weights              any of them in one safetensors file

Needs numpy and safetensors only. Training (`drsr.offline.train`) runs `network.forward` on torch tensors, and exports
what scikit-learn fitted to plain arrays.
"""
