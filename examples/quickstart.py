"""The quickstart of the README: train, lay the theory over it, find the plateaus, draw."""

import iclearn as icl

recipe = icl.Recipe(
    task=icl.LinearRegression(dim=4, num_prompts=None),
    model=icl.Attention("separate", num_heads=5),
    init=icl.Init(1e-2),
    optimizer=icl.Optimizer(lr=0.02),
    steps=20_001,
)
trace = icl.simulate(recipe)
theory = icl.predict(trace)
print(trace)
print("drops predicted at steps", theory["drop_step"].values.round().astype(int).tolist())
print("drops found at times", [round(drop.time, 1) for drop in icl.find_plateaus(trace).drops])
trace.plot(theory=True).savefig("quickstart.png")
