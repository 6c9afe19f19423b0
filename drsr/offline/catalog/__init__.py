"""The catalog: identity, hashes and status of everything the offline stages know. Bytes live in `artifacts.py`.

`tables.py` says what a row is, `engine.py` connects and `failures.py` says why it could not, `migrations.py` brings the
database to this code's revision. `records.py` writes down what an ingest read, `versions.py` decides which content of a
run is current, `frozen.py` holds states and candidates. `statements.py` has what both databases need said differently,
`logical_content.py` compares two catalogs.
"""
