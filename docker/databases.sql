-- The catalog's database is made by the image; this one is the Prefect server's.
CREATE DATABASE prefect;
