"""The evaluate stage: the scorer, its ablations and its controls on the test split, read once.

stage.evaluate_scorer(...)   metrics of the frozen scorer
ablation_study               what each part of it is worth
"""
