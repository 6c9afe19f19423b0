"""The featurize stage: feature views, registered once, filled with what is missing, and read back.

views.register_view(...) the columns, and the language model they are read from stage.materialize(...) features of the
states that have none yet records, files, upkeep where they are stored
"""
