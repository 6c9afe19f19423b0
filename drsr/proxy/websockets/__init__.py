"""WebSockets through the proxy: a tunnel for all of them, and the requests in those of the Responses API pruned."""
