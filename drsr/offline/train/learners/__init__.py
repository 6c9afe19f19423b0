"""Learners: each fits one kind of scorer on a frame.

fit.fit_scorer(...)   the scorer of the kind that the parameters name, in the paper's mode or cross-fitted
described               descriptions of the sets of a frame, and the tasks that each member draws
trees, linear           scikit-learn's models, exported to plain arrays

The paper's networks are fitted by `drsr.offline.train.fitting`.
"""
