"""The consumer's sub-commands of `drsr`: one file each, which import what they need when they run."""
