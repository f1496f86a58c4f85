"""Static data flow: the source is followed statement by statement over origins (`values.Value`) in place of values."""

from review.honesty.flow.flow import Flow
from review.honesty.flow.walk import Sink, TooLongError

__all__ = ["Flow", "Sink", "TooLongError"]
