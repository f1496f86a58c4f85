"""The paper: drafted, cited, revised and released, each a step of a run."""
