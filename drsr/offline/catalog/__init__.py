"""The catalog: identity, hashes and status of everything the offline stages know. Bytes live in the artifact store.

`tables.py` and the tables beside it say what a row is, `engine.py` connects and `failures.py` says why it could not,
`migrations.py` brings the database to this code's revision. `runs.py` notes when a stage started and ended.
`statements.py` has what both databases need said differently, `logical_content.py` compares two catalogs. What a stage
writes, and how it reads it back, lives in the room of that stage.
"""
