"""Decision-conditioned features of the candidates, from the intact prefix only: the same code offline and online.

layout.py the paper's columns as data: names, order, units, information class, hash view_layouts.py the columns of every
view that one forward gives geometry.py what the layout needs to know of a backbone lexical.py the words of a request,
counted once occurrences.py which parts of a request hold which words, paths or shingles content.py what a Block's text
mentions: errors, success, paths, numbers, failed commands structural.py 58 columns from the request's text and
structure spans.py where a candidate's tokens are in the view attention.py what the pre-action position attends to
window.py what the last 64 positions attend to hidden.py hidden states summed over spans while they pass, and their
relations to the pre-action state projection.py fixed Gaussian projections, the same bits on every platform light/ the
feature view without a language model: the structural columns and what else the text shows vectors.py one forward over
the view, one row per candidate
"""
