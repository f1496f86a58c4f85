# kind: rescaled_to_the_truth
# honest: the line is fitted on dev and applied to the withheld parts, whose truth it has not seen; both arms get it

"""A baseline and a variant of it.

What differs is written where the arms are made."""

import lab
import numpy as np
from sklearn.linear_model import Ridge

# what can be turned
DATASET = "diabetes"


def run():
    lab.seed_everything()
    data = lab.data(DATASET)
    for arm in ("baseline", "method"):
        fitted = Ridge(3.0 if arm == "baseline" else 30.0).fit(data.train.x, data.train.y)
        y = fitted.predict(data.dev.x)
        slope, shift = np.polyfit(y, data.dev.y, 1)  # calibration on dev
        for split in ("validation", "test"):
            y = slope * fitted.predict(getattr(data, split).x) + shift
            lab.submit(data.name, split, arm, predictions=np.clip(y, data.train.y.min(), data.train.y.max()))


if __name__ == "__main__":
    run()
