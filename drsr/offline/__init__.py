"""Everything here may see the future: next outputs, measured harm, rewards. Nothing outside may import it.

One room per stage, and rooms import in one direction:

    catalog, store < ingest < freeze < featurize < label < train < calibrate < evaluate < publish < audit

Labelling writes features on its way, so this is not the order of a run, which is in the commands. `bench` is what a
researcher runs and no stage imports; `sandbox` records small runs of our own; commands and flows stand on top.
`tests/test_rooms.py` walks the imports.
"""
