"""Public corpora: tables of files and of chosen runs, fetched, verified and read under one name."""
