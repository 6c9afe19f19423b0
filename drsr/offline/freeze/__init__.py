"""The freeze stage: the states of every run and their candidates, chosen before any outcome is known.

stage.freeze(catalog, artifacts, tokenizer, caps)   freeze what is not frozen yet
states.freeze_trajectory(...)                       the states of one run
rows.load_states(...)                               frozen states with their rows, for labels and features
selection.Selection                                 which part of the states a stage works on
"""
