"""One stage over many workers: its states cut into shards, each a flow run in a work pool, or a Dask task."""
