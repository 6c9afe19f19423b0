"""Every check of an audit: each a function that looks for itself and returns a verdict."""
