"""Three arms of a small transformer on sequences: from scratch, fine-tuned, and frozen."""
import lab
import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

MODEL = "check/sequences"
REVISION = "v1"
EPOCHS = 8
BATCH = 16
RATE = 0.0005
HEAD_RATE = 0.005


def build(arm, classes):
    folder = lab.pretrained(MODEL, REVISION)
    if arm == "scratch":
        config = BertConfig.from_pretrained(folder, num_labels=classes)
        return BertForSequenceClassification(config)
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=classes)
    if arm == "frozen":
        for parameter in model.bert.encoder.parameters():
            parameter.requires_grad = False
        for parameter in model.bert.embeddings.parameters():
            parameter.requires_grad = False
    return model


def predict(model, x):
    model.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(x), 256):
            batch = torch.from_numpy(np.ascontiguousarray(x[start:start + 256])).to(lab.device)
            parts.append(model(input_ids=batch).logits.float().softmax(-1).cpu().numpy())
    return np.concatenate(parts)


def run(cell):
    lab.seed_everything()
    data = lab.data(cell.dataset)
    model = build(cell.arm, data.classes).to(lab.device)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=HEAD_RATE if cell.arm == "frozen" else RATE)
    x = torch.from_numpy(np.ascontiguousarray(data.train.x)).to(lab.device)
    y = torch.from_numpy(data.train.y).to(lab.device)
    state = lab.restore()
    begin = 0
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begin = state["epoch"]
        print(f"RESUMED at epoch {begin}")
    for epoch in range(begin, EPOCHS):
        model.train()
        order = torch.from_numpy(np.random.default_rng(1000 * lab.seed + epoch).permutation(len(y))).to(lab.device)
        for rows in order.split(BATCH):
            optimizer.zero_grad()
            loss = model(input_ids=x[rows], labels=y[rows]).loss
            loss.backward()
            optimizer.step()
        lab.log("loss", float(loss.detach()), step=epoch, split="train")
        lab.checkpoint({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1})
    if lab.device == "cuda":
        print(f"PEAK {torch.cuda.max_memory_allocated()} on {torch.cuda.get_device_name(0)}")
    for split in ("validation", "test"):
        lab.submit(split=split, probabilities=predict(model, getattr(data, split).x))
    lab.save("train_size", np.array([len(y)]))


lab.measure(run)
