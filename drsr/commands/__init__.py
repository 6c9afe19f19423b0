"""The sub-commands of `drsr` for consumers, one file each; they import what they need when they run."""
