"""The version of this distribution, where everything that records it can import it. The same as in pyproject.toml."""

__version__ = "0.1.0"
