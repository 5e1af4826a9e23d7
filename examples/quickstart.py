"""Train rank-one attention, lay the theory over it, and ask which head learned what.

Run with ``python examples/quickstart.py``; writes quickstart.png.
"""

import matplotlib.pyplot as plt
import numpy as np

import iclearn as icl
from iclearn.probes.alignment import assign_heads, learned_strengths
from iclearn.theory.zhang2025 import gain_of, predict, saddle_losses

spectrum = icl.Covariance.eigenvalues([0.5, 0.3, 0.2], rotate=True)
recipe = icl.Recipe(
    task=icl.LinearRegression(dim=3, context_len=20, covariance=spectrum, num_prompts=None),
    model=icl.Attention("separate", num_heads=4),
    init=icl.Init(1e-2),
    optimizer=icl.Optimizer(lr=0.02),
    steps=15_001,
    seed=1,
)
trace = icl.simulate(recipe)
print(trace)

values, gain = spectrum.values(3), gain_of("none", 20)
basis = np.linalg.eigh(trace.data["covariance"].values)[1][:, ::-1]
start = trace.weights(0)
theory = predict("separate", values, 20, steps=15_001, lr=0.02, num_heads=4, weights=start, basis=basis, gain=gain)
for growth in assign_heads(trace, learned_strengths(values, 20, gain=gain)).growths:
    print(
        f"head {growth.head} learned eigenvector {growth.eigenvector} as a {growth.kind} (cosine {growth.cosine:.4f})"
    )

plt.semilogx(trace.loss.step + 1, trace.loss, color="black", label="training")
plt.semilogx(theory.step + 1, theory.loss, "--", color="tab:orange", label="theory, from the initial weights")
for level in saddle_losses(values, 20):
    plt.axhline(level, color="0.7", ls=":", zorder=0)
plt.xlabel("step")
plt.ylabel("loss")
plt.legend()
plt.savefig("quickstart.png", dpi=150)
