import numpy as np

SYLL = "ba be bi do du ka ke ki lo lu ma me mi no nu ra re ri so su ta te ti".split()


def vocabulary(n, rng):
    words = set()
    while len(words) < n:
        words.add("".join(rng.choice(SYLL, 3)))
    return sorted(words)


def make_corpus(cfg, rng):
    """Synthetic documents: each has a topic; a query repeats a few words of its document, some swapped for noise."""
    words = np.array(vocabulary(cfg["vocab"], rng))
    topics = rng.dirichlet(np.full(len(words), 0.05), cfg["topics"])
    docs, queries = [], []
    for i in range(cfg["docs"]):
        mix = 0.7 * topics[i % cfg["topics"]] + 0.3 / len(words)
        docs.append(list(rng.choice(words, cfg["doc_len"], p=mix)))
    for i in rng.choice(cfg["docs"], cfg["queries"], replace=False):
        q = [w if rng.random() > cfg["swap"] else str(rng.choice(words)) for w in rng.choice(docs[i], cfg["query_len"])]
        queries.append((q, int(i)))
    return docs, queries
