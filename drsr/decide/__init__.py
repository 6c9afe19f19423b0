"""Algorithm 1 of the paper: from a request to a decision.

freeze(request) candidates, fixed before any harm is measured deletion_sets(state) every subset of them with its saving
select(...) the largest feasible set, or the reason why there is none decide(...) the whole algorithm, top to bottom;
`invariants` checks what was returned
"""
