"""What prompts are told of the tree: typed, of bounded size, and only what a decision may see."""
