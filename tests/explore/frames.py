"""Waiting for what a page shows."""


def until(page, condition, arg=None):
    """Look at every frame whether a condition holds; playwright's own way needs eval, which the pages forbid."""
    page.evaluate(
        f"""(arg) => new Promise((done, fail) => {{
          const holds = {condition};
          const look = () => (holds(arg) ? done() : requestAnimationFrame(look));
          setTimeout(() => fail(new Error("what was waited for did not come")), 600_000);
          look();
        }})""",
        arg,
    )
