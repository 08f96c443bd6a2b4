"""A measure of doubt: how near the second class comes to the first."""

from torch import Tensor

from nescio.opinions import Measure, Prediction


def nearness_of_the_second(prediction: Prediction) -> Tensor:
    """1 - (the largest probability - the second), (N,)."""
    first, second = prediction.probabilities.topk(2).values.unbind(-1)
    return 1 - (first - second)


GAP = Measure(
    name="gap",
    about="1 - the gap between the two most probable classes",
    unit="share",
    function=nearness_of_the_second,
    lowest=0.0,
    highest=lambda num_classes: 1.0,
)
