"""Layer norm whose cache is an object with methods, and whose arithmetic lies in a module beside this one."""

from normalised_rows import NormalisedRows


def forward(x, gamma, beta, eps):
    rows = NormalisedRows(x, gamma, eps)
    return rows.scaled(beta), rows


def backward(dy, cache):
    return cache.input_gradient(dy), cache.gamma_gradient(dy), cache.beta_gradient(dy)
