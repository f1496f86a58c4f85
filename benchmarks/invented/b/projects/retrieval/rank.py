import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer


class Index:
    def __init__(self, docs, k1=1.2, b=0.75):
        self.vec = CountVectorizer(analyzer=list)
        counts = self.vec.fit_transform(docs)
        self.tfidf = TfidfTransformer()
        self.cosine = self.tfidf.fit_transform(counts)
        tf = counts.toarray().astype(float)
        idf = np.log(1 + (len(docs) - (tf > 0).sum(0) + 0.5) / ((tf > 0).sum(0) + 0.5))
        size = tf.sum(1, keepdims=True)
        self.bm25 = idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * size / size.mean()))

    def scores(self, query, how, feedback=3):
        q = self.vec.transform([query])
        if how == "bm25":
            return self.bm25 @ q.toarray()[0]
        vec = self.tfidf.transform(q)
        s = np.asarray((self.cosine @ vec.T).todense()).ravel()
        if how == "feedback":
            top = s.argsort()[::-1][:feedback]
            more = np.asarray(self.cosine[top].mean(axis=0)).ravel()
            s = s + 0.3 * (self.cosine @ more)
        return s


def top_k(index, query, how, k):
    return [int(i) for i in index.scores(query, how).argsort()[::-1][:k]]
