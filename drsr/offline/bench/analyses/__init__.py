"""The paper's analyses, each a function from labelled examples to a table and a figure. Diagnosis only."""
