"""The train stage: an ensemble of scorers, fitted on train, its epoch chosen on validation.

stage.train(...)                     train what the present data gives, unless that was trained before
frames.get_training_frame(...)       states, candidates, sets and labels of a split, joined; every read is recorded
examples.ExampleFrame                the same as plain arrays
fitting.fit(...)                     one ensemble
metrics                              AUROC, pair accuracy and the rest, with intervals by task
"""
