"""WebSockets through the proxy: a tunnel for all of them, with the requests of the Responses API pruned."""
