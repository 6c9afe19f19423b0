"""The featurize stage: feature views, registered once, filled with what is missing, and read back.

views.register_view(...)     which columns, read from which language model
stage.materialize(...)       features of the states that have none yet
records, files, upkeep       where they lie
"""
