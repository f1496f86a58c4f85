import numpy as np


def majority(votes, classes):
    counts = np.stack([(votes == k).sum(1) for k in range(classes)], 1)
    return counts.argmax(1), counts


def dawid_skene(votes, classes, rounds):
    """EM for labels and one confusion matrix a worker (Dawid and Skene, 1979); -1 marks no vote."""
    _, counts = majority(votes, classes)
    post = counts / counts.sum(1, keepdims=True)
    for _ in range(rounds):
        prior = post.mean(0)
        logp = np.tile(np.log(prior + 1e-9), (len(votes), 1))
        for w in range(votes.shape[1]):
            seen = votes[:, w] >= 0
            conf = np.full((classes, classes), 0.5)
            np.add.at(conf.T, votes[seen, w], post[seen])
            conf /= conf.sum(1, keepdims=True)
            logp[seen] += np.log(conf[:, votes[seen, w]]).T
        post = np.exp(logp - logp.max(1, keepdims=True))
        post /= post.sum(1, keepdims=True)
    return post.argmax(1)
