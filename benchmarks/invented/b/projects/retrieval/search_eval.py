import numpy as np

from util import CFG, bar, log, save
from corpus import make_corpus
from rank import Index, top_k


def evaluate(index, queries, how):
    hit, rr = 0, 0.0
    for query, gold in queries:
        found = top_k(index, query, how, CFG["k"])
        if gold in found:
            hit += 1
            rr += 1 / (1 + found.index(gold))
    return {"hits": hit, "n": len(queries), "recall": hit / len(queries), "mrr": rr / len(queries)}


def main():
    docs, queries = make_corpus(CFG, np.random.default_rng(CFG["seed"]))
    index = Index(docs)
    log("corpus", docs=len(docs), queries=len(queries))
    out = {}
    for how in bar(["tfidf", "bm25", "feedback"], "rankers"):
        out[how] = evaluate(index, queries, how)
        log(how, **out[how])
    save(out)


if __name__ == "__main__":
    main()
