"""Everything here may see the future: next outputs, measured harm, rewards. Nothing outside may import it.

One room per stage, and rooms import in one direction:

    catalog < store < ingest < freeze < featurize < label < train < calibrate < evaluate < publish < audit

Labelling writes features on its way, so this is not the order of a run, which is in `stages.py`. Between publish and
audit lie `dashboard`, the history of a catalog as a page, and `drsr.expectations`, the rules of the data. Above them
are `sandbox`, which records small runs of our own, `bench`, which researchers run and no stage imports, `notices` to
other programs, and on top the commands and `drsr.flows`. `tests/test_rooms.py` holds every module to its place.
"""
