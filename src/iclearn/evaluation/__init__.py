"""Out of distribution: trained runs and in-context algorithms on the same prompts of shifted laws.

>>> from iclearn.tasks import FunctionClass
>>> law = FunctionClass(dim=2, context_len=4, noise=0.25)
>>> found = evaluate(predictors=["averaging"], task=law, shifts=["prior_scale=3"], num_prompts=256)
>>> found.follows("least_squares", "prior_scale=3", 4)
'algorithm'
"""

from .baselines import BASELINES, Baseline
from .laws import EvaluationLaw, law_of
from .matrix import evaluate
from .shift_words import shifts_named
from .stored_matrix import Matrix

__all__ = ["BASELINES", "Baseline", "EvaluationLaw", "Matrix", "evaluate", "law_of", "shifts_named"]
