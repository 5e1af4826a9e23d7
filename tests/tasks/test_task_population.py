"""Closed forms over infinitely many prompts, against drawn prompts and against hand cases."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.forms import Moments
from iclearn.core.prompt import Batch
from iclearn.tasks import Covariance, LinearRegression
from iclearn.tasks.expectations import KroneckerForm, quadratic_form, wishart_sandwich

SIGMAS = 5
PROMPTS = 12_000  # with dim 2 and context 4, shapes that other tests compile too


def test_wishart_sandwich_of_one_sample_is_a_fourth_moment():
    """With one sample Λ̂AΛ̂ = x xᵀA x xᵀ, whose mean Isserlis' theorem gives entry by entry."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    cov, middle = root @ root.T, rng.normal(size=(3, 3))
    expected = np.zeros((3, 3))
    for a in range(3):
        for d in range(3):
            expected[a, d] = sum(
                middle[b, c] * (cov[a, b] * cov[c, d] + cov[a, c] * cov[b, d] + cov[a, d] * cov[b, c])
                for b in range(3)
                for c in range(3)
            )
    got = wishart_sandwich(jnp.asarray(middle), jnp.asarray(cov), jnp.asarray(1.0))
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_wishart_sandwich_of_many_samples_forgets_their_fluctuations():
    cov, middle = np.diag([2.0, 1.0]), np.array([[1.0, 0.5], [-0.5, 3.0]])
    got = wishart_sandwich(jnp.asarray(middle), jnp.asarray(cov), jnp.asarray(1e14))
    np.testing.assert_allclose(got, cov @ middle @ cov, rtol=1e-12)


PLAIN = LinearRegression(dim=2, context_len=4)
LAWS = {
    "own task": PLAIN,
    "noise and prior": PLAIN.replace(
        noise=0.5, prior_mean=(1.0, -0.5), prior_covariance=Covariance.matrix([[1.0, 0.3], [0.3, 0.5]])
    ),
    "two outputs, prior mean": PLAIN.replace(out_dim=2, prior_mean=(0.7, 0.2)),
    "mix": PLAIN.replace(in_context=0.5),
    "mix of two outputs": PLAIN.replace(in_context=0.5, out_dim=2, noise=0.3),
    "in weight": PLAIN.replace(in_context=0.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_quadratic_form_is_the_mean_over_drawn_prompts(name):
    """E[β β'], E[β_{i,o} y_t x_j] and E[y²], entry by entry, within SIGMAS standard errors of the sample means."""
    task, scale = LAWS[name], 0.5
    form: KroneckerForm = quadratic_form(
        task.label_laws(1), task.covariance_matrix(1), jnp.asarray(float(task.context_len)), jnp.asarray(scale)
    )
    batch = task.replace(num_prompts=PROMPTS).source(1, jnp.float64).everything()
    assert isinstance(batch, Batch)
    x, y, query, target = (np.asarray(a) for a in (batch.prompt.x, batch.prompt.y, batch.prompt.query, batch.target))
    beta = scale * np.einsum("pni,pno->poi", x, y)
    pairs = [
        (np.einsum("poi,pqj->poiqj", beta, beta), form.second),
        (np.einsum("poi,pj,pt->poijt", beta, query, target), form.cross),
        (np.einsum("pi,pj->pij", query, query), form.inputs),
        ((target**2).mean(1), form.constant),
    ]
    for samples, expected in pairs:
        error = samples.std(0) / np.sqrt(PROMPTS)
        off = np.abs(samples.mean(0) - np.asarray(expected)) / error
        assert off.max() < SIGMAS, f"{off.max():.1f} standard errors away"


@pytest.mark.parametrize("name", LAWS)
def test_the_kronecker_form_is_the_quadratic_form_of_its_moments_written_out(name):
    """For coefficients of any kind; a mix of two outputs has a cross term that is not symmetric in β and x_q."""
    task = LAWS[name]
    form = quadratic_form(task.label_laws(1), task.covariance_matrix(1), jnp.asarray(4.0), jnp.asarray(0.5))
    size = task.out_dim * task.dim**2
    second = jnp.einsum("oipk,jb->ojipbk", form.second, form.inputs).reshape(size, size)
    cross = jnp.einsum("oijt->ojit", form.cross).reshape(size, task.out_dim)
    full = Moments(second, cross, form.constant)
    coefficients = jnp.asarray(np.random.default_rng(0).normal(size=(size, task.out_dim)))
    np.testing.assert_allclose(form(coefficients), full(coefficients), rtol=1e-12)
    np.testing.assert_allclose(form.minimum(), full.minimum(), rtol=1e-9)


def test_the_second_moment_of_the_spec():
    """w ~ N(0, I): E[β̂β̂ᵀ] = Λ² + (Λ + tr(Λ) I)Λ/N and E[y_q z] = vec(Λ²) (spec section 4)."""
    task = LinearRegression(dim=3, context_len=7)
    cov = np.asarray(task.covariance_matrix(4))
    form = quadratic_form(task.label_laws(4), jnp.asarray(cov), jnp.asarray(7.0), jnp.asarray(1 / 7))
    np.testing.assert_allclose(
        form.second[0, :, 0], cov @ cov + (cov + np.trace(cov) * np.eye(3)) @ cov / 7, rtol=1e-12
    )
    np.testing.assert_allclose(form.cross[0, :, :, 0], cov @ cov, rtol=1e-12)
    np.testing.assert_allclose(form.constant, np.trace(cov), rtol=1e-12)
