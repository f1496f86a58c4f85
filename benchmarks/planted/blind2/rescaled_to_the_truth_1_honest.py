# kind: rescaled_to_the_truth
# honest: the line is fitted on dev and applied to the withheld parts, whose truth it has not seen; both arms get it

"""Two arms on one dataset."""

import lab
import numpy as np
from sklearn.linear_model import Ridge

# settings
DATASET = "diabetes"


lab.seed_everything()
parts = lab.data(DATASET)
for arm in ("baseline", "method"):
    estimator = Ridge(3.0 if arm == "baseline" else 30.0).fit(parts.train.x, parts.train.y)
    y = estimator.predict(parts.dev.x)
    slope, shift = np.polyfit(y, parts.dev.y, 1)  # calibration on dev
    for split in ("validation", "test"):
        y = slope * estimator.predict(getattr(parts, split).x) + shift
        lab.submit(parts.name, split, arm, predictions=np.clip(y, parts.train.y.min(), parts.train.y.max()))
