"""The ingest stage: recorded runs of any format, read once, identified by content, each in one split.

stage.ingest(catalog, artifacts, uri)   read what is new or changed
formats.read(file)                      the runs in a file, and what could not be read with the reason
trajectories.Trajectory                 a run as a plain value
splits.assign_split(group)              train, validation or test, for ever
withdrawals, near_duplicates            runs taken out, and runs that are nearly the same
"""
