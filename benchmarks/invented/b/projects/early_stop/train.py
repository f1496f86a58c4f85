import copy
import warnings

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from util import CFG, bar, log, save

warnings.filterwarnings("ignore")


def fit(patience, seed):
    X, y = load_digits(return_X_y=True)
    Xa, Xt, ya, yt = train_test_split(X / 16, y, test_size=0.4, stratify=y, random_state=seed)
    Xa, Xv, ya, yv = train_test_split(Xa[:CFG["train"]], ya[:CFG["train"]], test_size=0.25, random_state=seed)
    net = MLPClassifier((CFG["hidden"],), learning_rate_init=CFG["lr"], batch_size=32, random_state=seed)
    best, best_net, wait = -1.0, None, 0
    for epoch in range(1, CFG["epochs"] + 1):
        net.partial_fit(Xa, ya, classes=range(10))
        val = float(net.score(Xv, yv))
        log("epoch", patience=patience, seed=seed, epoch=epoch, loss=float(net.loss_), val_acc=val)
        if val > best:
            best, best_net, wait = val, copy.deepcopy(net), 0
        else:
            wait += 1
        if patience and wait >= patience:
            log("stopping early", patience=patience, seed=seed, epoch=epoch, best=best)
            break
    return {"seed": seed, "epochs": epoch, "test_acc": float(best_net.score(Xt, yt)), "n_test": len(yt)}


def main():
    out = {}
    for patience in CFG["patience"]:
        out[str(patience)] = []
        for seed in bar(CFG["seeds"], f"patience {patience}"):
            out[str(patience)].append(fit(patience, seed))
            log("result", patience=patience, **out[str(patience)][-1])
    save(out)


if __name__ == "__main__":
    main()
