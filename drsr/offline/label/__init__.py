"""The label stage: exact joint deletion harm of every deletion set of every frozen state.

stage.label(...)            measure what is missing, together with other workers
target_nll.TargetNll        the recorded next output under many contexts that share prefixes
harm.measure_states(...)    harms of all sets of some states
records                     labelers, labels and exclusions in the catalog
noise                       how much of a harm is rounding, measured before the first label
remeasure.remeasure(...)    some of them again, the slow way
exports.import_measured     labels and features that another catalog measured
"""
