"""Generated requests through the whole core: a few hundred in `make test`, ten thousand in `make fuzz`."""
