"""Great Expectations judges the data: a suite as code per dataset, run after the stage that makes it.

Read `judging.py` first: it is the door. Then:

rules.py       what a suite is made of: parts (frames with a grain), rules with a name and a hint
required.py    the rules that every dataset must be judged by, written down a second time: none can get lost
library.py     Great Expectations itself, imported late and quietly, in a context that calls nobody
inputs.py      the tables behind every dataset, and a hash of what they hold
evaluation.py  a suite and its frames -> findings; a rule that was dropped is a finding that failed
suites/        the rules, one file per dataset
custom/        what the built-in expectations do not say
frames/        the frames, read from the catalog and the artifact store, only the columns that a rule looks at
data_docs.py   the findings as a static site that opens without a network
"""
