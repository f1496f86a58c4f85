"""The user's own papers and notes: read page by page, summarised with places that are checked, handed to prompts."""
