"""The audit: checks that compute again what a policy rests on, each with a verdict."""
